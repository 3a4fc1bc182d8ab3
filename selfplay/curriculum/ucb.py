"""UCB selection of a batch of seeds (ANCORA sections 4.4 and G.12).

    root score   = exploit + c * sqrt(log(total visits + 1) / (n + 1))        + kin_weight * kinship
    stay score   = exploit + c * sqrt(log(n_parent + 1) / (n_stay + 1))       + kin_weight * kinship
    child score  = exploit + c * sqrt(log(n_parent + 1) / (n_edge + 1))       + kin_weight * kinship

n_parent is n of the node at which the choice between "stay" and a child is made. Scores are computed once a batch for
the roots and for each node that a descent enters, and only lowered by repulsion afterwards; so a selection costs the
number of roots plus the children of the nodes entered, whatever the size of the pool. Statistics are read, not written.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfplay.curriculum.config import CurriculumConfig
from selfplay.curriculum.dag import Dag
from selfplay.curriculum.node import Direction, Seed, SeedKind
from selfplay.curriculum.statistics import Floats, Rows

_TRIES = 8  # draws of a second parent before the difficulty window is given up


@dataclass
class _Choice:
    """The actions open at one node: its feasible children, scored [M], and staying."""

    children: Rows
    scores: Floats
    stay: float


def zpd_bounds(ability: float, config: CurriculumConfig) -> tuple[float, float]:
    """The difficulty window around the ability, cut to [0, 1] (G.12 item 5; `above` is D.4's)."""
    zpd = config.zpd
    below = zpd.width / 2 if zpd.window == "centered" else 0.0
    low, high = ability - below, ability - below + zpd.width - zpd.upper_margin
    return max(low, 0.0), min(high, 1.0)


def zpd_kernel(pass_rates: Floats, ability: float, config: CurriculumConfig) -> Floats:
    """ZPD(q) in [0, 1]: 1 in the middle of the window, falling linearly to 0 at its ends (the paper names no shape)."""
    centre = ability if config.zpd.window == "centered" else ability + config.zpd.width / 2
    half = config.zpd.width / 2
    return np.clip(1.0 - np.abs(pass_rates - centre) / half, 0.0, 1.0) if half > 0 else (pass_rates == centre) * 1.0


class BatchSelector:
    """Selects the seeds of one batch; make a new one for each batch."""

    def __init__(self, dag: Dag, ability: float | None, rng: np.random.Generator) -> None:
        """`ability`: the solver's, or None when nothing was observed; then no window applies."""
        self.dag = dag
        self.config = dag.config
        self.ability = ability
        self.rng = rng
        self._roots = self._feasible(np.array(dag.roots, dtype=np.int64))
        total = dag.statistics.total_visits
        visits = dag.statistics.current(dag.statistics.visits, self._roots)
        self._root_scores = self._scores(self._roots, math.log(total + 1), visits)
        self._choices: dict[int, _Choice] = {}

    def select(self, count: int, proposals: int) -> list[Seed]:
        """`count` seeds: first the root quota, then the descents."""
        roots_only = math.floor(self.config.root_ratio * count + 0.5)
        seeds = [self._seed([self._pick_root()], SeedKind.ROOT, proposals) for _ in range(roots_only)]
        while len(seeds) < count:
            seeds.append(self._seed(self._descend(), SeedKind.DESCENDED, proposals))
        return seeds

    def _pick_root(self) -> int:
        at = self._best(self._roots, self._root_scores)
        self._root_scores[at] -= self.config.batch_repulsion
        return int(self._roots[at])

    def _descend(self) -> list[int]:
        path = [self._pick_root()]
        while len(path) <= self.config.depth_cap:
            choice = self._choice(path[-1])
            if len(choice.children) == 0:
                break
            at = self._best(choice.children, choice.scores)
            if choice.scores[at] <= choice.stay + self.config.descend_margin:
                choice.stay -= self.config.batch_repulsion
                break
            choice.scores[at] -= self.config.batch_repulsion
            path.append(int(choice.children[at]))
        return path

    def _choice(self, row: int) -> _Choice:
        if row not in self._choices:
            dag, stats = self.dag, self.dag.statistics
            here = np.array([row], dtype=np.int64)
            log_parent = math.log(float(stats.current(stats.visits, here)[0]) + 1)
            stay = self._scores(here, log_parent, stats.current(stats.stays, here))
            children, edge_visits = np.empty(0, dtype=np.int64), np.empty(0)
            if row in dag.edges:
                edges = dag.edges[row]
                within = self._in_window(edges.children)
                children = edges.children[within]
                edge_visits = edges.visits(stats.decay, stats.step)[within]
            self._choices[row] = _Choice(children, self._scores(children, log_parent, edge_visits), float(stay[0]))
        return self._choices[row]

    def _scores(self, rows: Rows, log_total: float, action_visits: Floats) -> Floats:
        values = self.dag.values(rows)
        if self.config.exploit == "empirical" and self.ability is not None:
            rates = self.dag.statistics.pass_rates(rows)
            values = values + self.config.zpd.weight * zpd_kernel(rates, self.ability, self.config)
        bonus = self.config.exploration * np.sqrt(log_total / (action_visits + 1))
        scores = values + bonus + self.config.kin_weight * self.dag.kinship(rows)
        return np.round(scores, 12)  # equal statistics must tie exactly, whatever lane computed them

    def _best(self, rows: Rows, scores: Floats) -> int:
        """Position of the highest score; the smallest node id wins a tie."""
        ties = np.flatnonzero(scores == scores.max())
        return int(min(ties, key=lambda at: self.dag.node(int(rows[at])).id))

    def _in_window(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows have a pass rate in the window; those without any observation do."""
        stats = self.dag.statistics
        if self.ability is None:
            return np.ones(len(rows), dtype=np.bool_)
        low, high = zpd_bounds(self.ability, self.config)
        rates = stats.pass_rates(rows)
        within: NDArray[np.bool_] = (stats.pass_weight[rows] == 0) | ((rates >= low) & (rates <= high))
        return within

    def _feasible(self, rows: Rows) -> Rows:
        """The rows in the window, or all when it holds none: a batch is never left without seeds."""
        within = self._in_window(rows)
        return rows[within] if within.any() else rows

    def _seed(self, path: list[int], kind: SeedKind, proposals: int) -> Seed:
        row = path[-1]
        node = self.dag.node(row)
        second = self._second_parents(row, proposals)
        ids = tuple(self.dag.node(r).id for r in path)
        return Seed(node.id, node.text, self._direction(row), ids, second, kind)

    def _direction(self, row: int) -> Direction:
        if self.config.direction != "adaptive":
            return Direction(self.config.direction)
        # without any observation the solver's ability is unknown: start from what is easy and go up
        if self.ability is None or self.dag.difficulty(row) >= self.ability:
            return Direction.UP
        return Direction.DOWN

    def _crossed(self, row: int, proposals: int) -> int:
        """How many of a seed's proposals are crossovers: a fixed share, or what UCB over its two operators chooses.

        operator score = s_op / n_op + c * sqrt(log(n_1 + n_2 + 1) / (n_op + 1))

        Each choice counts as a visit at once; an operator that was never tried has the cold-start value.
        """
        if self.config.operators == "fixed":
            return math.floor(self.config.crossover * proposals + 0.5)
        visits, rewards = self.dag.statistics.operators(row)
        cold = np.full(2, self.config.cold_start_value)
        means = np.divide(rewards, visits, out=cold, where=visits > 0)
        picks = np.zeros(2)
        for _ in range(proposals):
            tried = visits + picks
            bonus = self.config.exploration * np.sqrt(math.log(tried.sum() + 1) / (tried + 1))
            picks[int(np.argmax(np.round(means + bonus, 12)))] += 1
        return int(picks[1])

    def _second_parents(self, row: int, proposals: int) -> tuple[str | None, ...]:
        """Second parents [N]: none at first, then for the crossed proposals one drawn evenly from the pool.

        A draw in the difficulty window is preferred; a pool without another member gives None.
        """
        crossed = self._crossed(row, proposals)
        draws = self.rng.integers(self.dag.statistics.size, size=(crossed, _TRIES))
        other = (draws != row) & self.dag.statistics.alive[draws]
        preferred = other & self._in_window(draws.ravel()).reshape(draws.shape)
        ids: list[str | None] = [None] * (proposals - crossed)
        for drawn, wanted, possible in zip(draws, preferred, other, strict=True):
            usable = wanted if wanted.any() else possible
            ids.append(self.dag.node(int(drawn[usable.argmax()])).id if usable.any() else None)
        return tuple(ids)
