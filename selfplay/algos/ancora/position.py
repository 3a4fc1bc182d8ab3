"""How far a run has come: the part of a checkpoint that is neither weights nor pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Stage(StrEnum):
    """The warm-up's stages, one round after the other, and then reinforcement."""

    DEMOS = "demos"  # round 0: supervised steps on demonstrations
    COLLECT = "collect"  # rounds 1..: a short ANCORA phase whose verified rollouts are kept
    DISTILL = "distill"  # rounds 1..: supervised steps on what was kept
    TRAIN = "train"


@dataclass
class Position:
    """Counters of a run. `done` counts the steps of the warm-up's present stage, `step` those of reinforcement."""

    stage: Stage = Stage.DEMOS
    round: int = 0
    done: int = 0
    step: int = 0
    tokens: int = 0  # generated in reinforcement
    attempts: int = 0  # of the Solver, in reinforcement
    valid_rates: list[float] = field(default_factory=list)  # of the last steps, for the collapse alarm
    rollbacks: int = 0
    rounds: list[dict[str, Any]] = field(default_factory=list)  # the warm-up's table, a row a round
    stopped: str = ""  # why the run ends before its last step

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Position:
        """The inverse of `to_dict`. Raises TypeError or ValueError for anything else."""
        return cls(**{**data, "stage": Stage(data["stage"])})
