"""Per-node statistics in columns, decayed lazily (ANCORA section G.3, equations 29 to 31).

    each step, all nodes:  n <- g n,  s <- g s

A step touches no node: a row keeps the step at which it was last brought up to date, and its value at step t is the
stored one times g^(t - then). The mean s / n needs no decay at all, because both share the factor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

OPERATORS = ("mutation", "crossover")  # how a proposal is asked for: from the seed alone, or with a second parent
OPERATOR_COLUMNS = tuple((f"{name}_visits", f"{name}_reward") for name in OPERATORS)
DECAYING = ("visits", "reward", "stays", *OPERATOR_COLUMNS[0], *OPERATOR_COLUMNS[1])
FLOAT_COLUMNS = (*DECAYING, "ratchet", "pass_sum", "pass_weight")


class NodeStatistics:
    """Columns over rows 0..size-1; row i belongs to node i of the DAG.

    visits, reward, stays: n, s and n_stay at step `touched`; ratchet: running maximum of s / n.
    mutation_*, crossover_*: the same sums over the node's own proposals, by the operator that made them.
    pass_sum / pass_weight is the pass rate: the recursion p <- d p + (1 - d) x of the paper, divided by the weight that
    its observations have had so far. From a cold start the bare recursion needs some 170 observations to reach half of
    the true rate; the quotient is the mean of what was seen, and both agree in the long run.
    """

    def __init__(self, decay: float, pass_rate_decay: float) -> None:
        self.decay = decay
        self.pass_rate_decay = pass_rate_decay
        self.size = 0
        self.step = 0
        self.touched: Rows = np.zeros(64, dtype=np.int64)
        self.alive: NDArray[np.bool_] = np.zeros(64, dtype=np.bool_)
        self.visits: Floats = np.zeros(64)
        self.reward: Floats = np.zeros(64)
        self.stays: Floats = np.zeros(64)
        self.mutation_visits: Floats = np.zeros(64)
        self.mutation_reward: Floats = np.zeros(64)
        self.crossover_visits: Floats = np.zeros(64)
        self.crossover_reward: Floats = np.zeros(64)
        self.ratchet: Floats = np.zeros(64)
        self.pass_sum: Floats = np.zeros(64)
        self.pass_weight: Floats = np.zeros(64)
        self.total = 0.0  # discounted number of visits to any node, as of step `total_step`
        self.total_step = 0
        self.positive_sum = 0.0  # sum and number of the positive pass rates, for the cold-start chain
        self.positive_count = 0

    def add(self) -> int:
        """A new row with empty statistics; returns its index."""
        row = self.size
        if row == len(self.touched):
            for name in ("touched", "alive", *FLOAT_COLUMNS):
                old = getattr(self, name)
                grown = np.zeros(2 * len(old), dtype=old.dtype)
                grown[: len(old)] = old
                setattr(self, name, grown)
        self.size = row + 1
        self.touched[row] = self.step
        self.alive[row] = True
        return row

    def fill(self, alive: NDArray[np.bool_], columns: dict[str, NDArray[np.float64 | np.int64]]) -> None:
        """Take over saved rows [M]: which are alive, and `touched` with every one of `FLOAT_COLUMNS`."""
        self.size = len(alive)
        capacity = max(64, self.size)
        for name, values in {"alive": alive, **columns}.items():
            column = np.zeros(capacity, dtype=getattr(self, name).dtype)
            column[: self.size] = values
            setattr(self, name, column)

    def remove(self, row: int) -> None:
        """Take a row out of every aggregate; it stays as a dead row."""
        self._count_positive(row, -1)
        self.alive[row] = False

    @property
    def total_visits(self) -> float:
        """Discounted number of visits so far (the numerator of the root score)."""
        return self.total * float(self.decay ** (self.step - self.total_step))

    def count_visit(self) -> None:
        """One more visit to some node."""
        self.total = self.total_visits + 1.0
        self.total_step = self.step

    def add_visit(self, row: int, weight: float, reward: float) -> None:
        """n += weight, s += weight * reward, ratchet <- max(ratchet, s / n) (equations 29 to 31)."""
        self._bring_up_to_date(row)
        self.visits[row] += weight
        self.reward[row] += weight * reward
        if self.visits[row] > 0:
            self.ratchet[row] = max(self.ratchet[row], self.reward[row] / self.visits[row])

    def add_stay(self, row: int) -> None:
        """One more descent that stayed at this node."""
        self._bring_up_to_date(row)
        self.stays[row] += 1.0

    def add_proposal(self, row: int, crossed: bool, reward: float) -> None:
        """One more proposal from this node, by mutation or by crossover."""
        self._bring_up_to_date(row)
        visits, rewards = OPERATOR_COLUMNS[crossed]
        getattr(self, visits)[row] += 1.0
        getattr(self, rewards)[row] += reward

    def operators(self, row: int) -> tuple[Floats, Floats]:
        """Discounted proposals and rewards [2] of a node's two operators."""
        here = np.array([row], dtype=np.int64)
        visits, rewards = (
            np.concatenate([self.current(getattr(self, columns[i]), here) for columns in OPERATOR_COLUMNS])
            for i in range(2)
        )
        return visits, rewards

    def observe_pass_rate(self, row: int, observed: float) -> None:
        """pass_rate <- d * pass_rate + (1 - d) * observed, corrected for its start."""
        self._count_positive(row, -1)
        d = self.pass_rate_decay
        self.pass_sum[row] = d * self.pass_sum[row] + (1 - d) * observed
        self.pass_weight[row] = d * self.pass_weight[row] + (1 - d)
        self._count_positive(row, 1)

    def reset_pass_rates(self) -> None:
        """Forget every pass rate (`reset_pass_rate` of a cold start)."""
        self.pass_sum[:] = 0.0
        self.pass_weight[:] = 0.0
        self.positive_sum, self.positive_count = 0.0, 0

    def current(self, column: Floats, rows: Rows) -> Floats:
        """Discounted values of one of the `DECAYING` columns at this step, for rows [M]."""
        return column[rows] * self.decay ** (self.step - self.touched[rows])

    def pass_rates(self, rows: Rows) -> Floats:
        """Pass rates [M]; 0 where nothing was observed."""
        weight = self.pass_weight[rows]
        return np.divide(self.pass_sum[rows], weight, out=np.zeros(len(rows)), where=weight > 0)

    def means(self, rows: Rows) -> Floats:
        """s / n [M]; 0 where never visited."""
        n = self.visits[rows]
        return np.divide(self.reward[rows], n, out=np.zeros(len(rows)), where=n > 0)

    def _bring_up_to_date(self, row: int) -> None:
        factor = self.decay ** int(self.step - self.touched[row])
        for name in DECAYING:
            getattr(self, name)[row] *= factor
        self.touched[row] = self.step

    def _count_positive(self, row: int, sign: int) -> None:
        if self.pass_sum[row] > 0:
            self.positive_sum += sign * float(self.pass_sum[row] / self.pass_weight[row])
            self.positive_count += sign
            if self.positive_count == 0:
                self.positive_sum = 0.0  # drop rounding residue
