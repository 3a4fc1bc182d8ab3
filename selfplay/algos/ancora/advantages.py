"""From rewards to what each row's tokens are multiplied by (ANCORA sections 3.1 and 4.5).

The Proposer's group is a seed (its N proposals), the Solver's a specification (its K attempts). Advantages are
mean-normalised in the group, then each branch is scaled to its share of the update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from selfplay.objectives.advantages import grouped
from selfplay.objectives.balance import BranchWeights, branch_mass, branch_weights
from selfplay.objectives.config import BalanceConfig

PROPOSER, SOLVER = "proposer", "solver"


class ScoredRow(Protocol):
    """What is read of a row."""

    role: str
    group: str
    reward: float
    tokens: int
    record: Mapping[str, Any]


def accepted(row: ScoredRow) -> bool:
    """Whether the gate let a proposal pass."""
    return row.record["verdict"] == "accepted"


class Advantages:
    """Callable on a batch's rows; keeps the last batch's weights and per-row advantages for the metrics."""

    def __init__(self, balance: BalanceConfig, freeze: str, rejected: str) -> None:
        self.balance, self.freeze, self.rejected = balance, freeze, rejected
        self.weights: BranchWeights | None = None
        self.values: list[float] = []

    def __call__(self, rows: Sequence[ScoredRow]) -> list[float]:
        """One advantage a row.

        With `rejected="drop"` a rejected proposal is left out of its group and of the loss (the other reading of
        section 4.2.2); with `zero_reward` it stays, with the reward it was given.
        """
        kept = [i for i, row in enumerate(rows) if not self._dropped(row)]
        advantages = np.zeros(len(rows))
        advantages[kept] = grouped(
            [rows[i].reward for i in kept], [rows[i].role for i in kept], [rows[i].group for i in kept]
        )
        tokens = np.array([row.tokens for row in rows])
        of = {role: [i for i in kept if rows[i].role == role] for role in (PROPOSER, SOLVER)}
        masses = {role: branch_mass(advantages[ids], tokens[ids]) for role, ids in of.items()}
        proposals = [row for row in rows if row.role == PROPOSER]
        valid_rate = sum(map(accepted, proposals)) / len(proposals)
        weights = branch_weights(masses[PROPOSER], masses[SOLVER], self.balance, valid_rate, self.freeze)
        advantages[of[PROPOSER]] *= weights.multiplier_q
        advantages[of[SOLVER]] *= weights.multiplier_s
        self.weights, self.values = weights, [float(a) for a in advantages]
        return self.values

    def _dropped(self, row: ScoredRow) -> bool:
        return self.rejected == "drop" and row.role == PROPOSER and not accepted(row)
