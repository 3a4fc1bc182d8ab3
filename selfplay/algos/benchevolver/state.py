"""How far a run has come: what a checkpoint holds beside the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Stage(StrEnum):
    """The stages of a run; from `search` to `close` they are gone through once a round."""

    WARMUP = "warmup"
    BEFORE = "before"  # the first evaluation
    SEARCH = "search"
    TRAIN = "train"  # one mixture after the other
    CLOSE = "close"
    END = "end"


@dataclass
class Position:
    """Counters of a run. `done` counts the steps of the present stage or mixture, `step` those of the whole run."""

    stage: Stage = Stage.WARMUP
    round: int = 1
    mixture: int = 0  # place in `rl.mixtures`
    done: int = 0
    step: int = 0
    tokens: int = 0
    row: dict[str, Any] = field(default_factory=dict)  # of this round, as far as it is known
    rounds: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Position:
        """The inverse of `to_dict`. Raises TypeError or ValueError for anything else."""
        return cls(**{**data, "stage": Stage(data["stage"])})
