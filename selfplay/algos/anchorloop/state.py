"""How far a run has come, and the policies it has made: what a checkpoint and the folder `policies/` hold."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from selfplay.algos.anchorloop.config import CURRICULUM, EXECUTOR
from selfplay.engine.session import Session
from selfplay.runs.files import to_json, write_atomic


class Stage(StrEnum):
    """The stages of a run; those between `refresh` and `close` are gone through once an iteration."""

    WARMUP = "warmup"
    BEFORE = "before"  # the first evaluation
    REFRESH = "refresh"  # the anchor becomes what the executor is
    CURRICULUM = "curriculum"
    POOL = "pool"
    ANCHOR = "anchor"
    EXECUTOR = "executor"
    CLOSE = "close"  # the iteration's evaluation and its row
    END = "end"


@dataclass
class Position:
    """Counters of a run. `done` counts the steps of the present stage, `step` the optimizer steps of all iterations."""

    stage: Stage = Stage.WARMUP
    iteration: int = 1
    done: int = 0
    step: int = 0
    tokens: int = 0
    anchor: int = 0  # whose iteration's executor the anchor is; 0: the backbone
    seconds: dict[str, float] = field(default_factory=dict)  # of this iteration, by stage
    sums: dict[str, dict[str, float]] = field(default_factory=dict)  # of this iteration's metrics, by stage
    iterations: list[dict[str, Any]] = field(default_factory=list)

    def count(self, stage: Stage, values: Mapping[str, float], seconds: float) -> None:
        """A step of this iteration, with its metrics."""
        self.step, self.done = self.step + 1, self.done + 1
        sums = self.sums.setdefault(stage, {"steps": 0.0})
        for name, value in (("steps", 1.0), *values.items()):
            sums[name] = sums.get(name, 0.0) + value
        self.count_seconds(stage, seconds)

    def count_seconds(self, stage: Stage, seconds: float) -> None:
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds

    def means(self) -> dict[str, Any]:
        """Of this iteration: each stage's metrics (means over steps), its seconds, and the anchor's share of them."""
        row: dict[str, Any] = {}
        for stage, sums in self.sums.items():
            row[stage] = {name: total / sums["steps"] for name, total in sums.items() if name != "steps"}
            row[stage]["steps"] = sums["steps"]
        whole = sum(self.seconds.values())
        row["seconds"] = {stage: round(s, 2) for stage, s in self.seconds.items()} | {"all": round(whole, 2)}
        row["anchor_overhead"] = self.seconds.get(Stage.ANCHOR, 0.0) / whole if whole else 0.0
        return row

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Position:
        """The inverse of `to_dict`. Raises TypeError or ValueError for anything else."""
        return cls(**{**data, "stage": Stage(data["stage"])})


class Policies:
    """`policies/executor_002/`: both roles at the end of each iteration; `base/` is what both start from.

    A folder by its name is complete: state to train on from, exported weights, and their digest.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, role: str, iteration: int) -> Path:
        return self.folder / (f"{role}_{iteration:03d}" if iteration else "base")

    def keep(self, session: Session, role: str, iteration: int) -> None:
        """Write the session's policy; an earlier attempt at the same is replaced."""
        path = self.path(role, iteration)
        staging = path.with_name(f".{path.name}.{os.getpid()}")
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        session.save(staging / "state")
        if role == EXECUTOR:  # only an executor ever becomes an anchor
            write_atomic(staging / "digest.json", to_json({"weights": session.export(staging)}) + "\n")
        shutil.rmtree(path, ignore_errors=True)
        os.rename(staging, path)

    def load(self, session: Session, role: str, iteration: int) -> None:
        """Make a kept policy the session's, with a fresh optimizer."""
        session.load(self.path(role, iteration) / "state")
        session.reset_optimizer()

    def digest(self, iteration: int) -> str:
        """The SHA-256 of an executor's weights."""
        text = (self.path(EXECUTOR, iteration) / "digest.json").read_text(encoding="utf-8")
        return str(json.loads(text)["weights"])

    def prune(self, iteration: int, anchor: int) -> None:
        """Forget what no later iteration reads: all but the backbone, the last policies and the anchor."""
        keep = {self.path(role, i).name for role in (CURRICULUM, EXECUTOR) for i in (0, iteration)}
        keep.add(self.path(EXECUTOR, anchor).name)
        for entry in self.folder.iterdir():
            if entry.name not in keep:
                shutil.rmtree(entry, ignore_errors=True)
