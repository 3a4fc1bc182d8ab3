"""`summary.json`: how a run stands, or how it ended. Rewritten as a whole, never half there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any

from selfplay.runs.files import RunDirError, to_json, write_atomic


class ExitCode(IntEnum):
    """What `python -m selfplay.train` ends with."""

    FINISHED = 0
    FAILED = 1
    BAD_CONFIG = 2  # or bad data
    STALLED = 3
    WORKER_LOST = 4
    INTERRUPTED = 130


class Status(StrEnum):
    """The `status` of a summary. `running` without a process that holds the directory's lock means: it was killed."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    BAD_CONFIG = "bad_config"
    STALLED = "stalled"
    WORKER_LOST = "worker_lost"
    INTERRUPTED = "interrupted"

    @classmethod
    def of(cls, code: int) -> Status:
        """The status of a run that ended with exit code `code`; a code that is none of ours counts as failed."""
        return cls[ExitCode(code).name] if code in set(ExitCode) else cls.FAILED


@dataclass
class EvalScore:
    """Held-out pass@1, the number of attempts `n` it rests on, and its 95% interval (low, high) over these attempts.

    `pass_at_k` are unbiased estimates; `by_problem` is pass@1's bootstrap interval over specifications, which says how
    far another choice of specifications might have moved it. `suites` are the scores of further evaluation sets.
    """

    pass_at_1: float
    n: int
    interval: tuple[float, float]
    by_problem: tuple[float, float] | None = None
    pass_at_k: dict[str, float] = field(default_factory=dict)
    suites: dict[str, EvalScore] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EvalScore:
        """The score of a summary's object, whose interval is a list."""
        low, high = data["interval"]
        by_problem = data.get("by_problem")
        return cls(
            pass_at_1=data["pass_at_1"],
            n=data["n"],
            interval=(low, high),
            by_problem=(by_problem[0], by_problem[1]) if by_problem else None,
            pass_at_k=dict(data.get("pass_at_k", {})),
            suites={name: cls.from_dict(score) for name, score in data.get("suites", {}).items()},
        )


@dataclass
class Summary:
    """`seconds` and `timing_s` are of all launches of the run together; `steps` are optimizer steps of the RL phase."""

    seed: int
    status: Status = Status.RUNNING
    steps: int = 0
    seconds: float = 0.0
    before: EvalScore | None = None
    after: EvalScore | None = None
    throughput: dict[str, float] = field(default_factory=dict)  # e.g. tokens_per_s, rows_per_s
    timing_s: dict[str, float] = field(default_factory=dict)  # phase -> seconds
    warmup: list[dict[str, Any]] = field(default_factory=list)  # a row for each round of the warm-up
    iterations: list[dict[str, Any]] = field(default_factory=list)  # a row for each of an outer loop's
    gain: dict[str, float] = field(default_factory=dict)  # after - before: mean, low, high (bootstrap over problems)
    message: str = ""  # one line: why the run ended as it did

    def to_dict(self) -> dict[str, Any]:
        """The object as it stands in the file."""
        evals: dict[str, Any] = {name: score and asdict(score) for name, score in self._scores()}
        evals["gain"] = self.gain
        return {
            "status": str(self.status),
            "seed": self.seed,
            "steps": self.steps,
            "seconds": round(self.seconds, 3),
            "eval": evals,
            "throughput": self.throughput,
            "timing_s": self.timing_s,
            "warmup": self.warmup,
            "iterations": self.iterations,
            "message": self.message,
        }

    def _scores(self) -> tuple[tuple[str, EvalScore | None], ...]:
        return ("before", self.before), ("after", self.after)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Summary:
        """The inverse of `to_dict`.

        Raises:
            KeyError, TypeError, ValueError: the object is not a summary.
        """
        evals = data["eval"]
        scores = {name: EvalScore.from_dict(evals[name]) if evals[name] else None for name in ("before", "after")}
        return cls(
            seed=data["seed"],
            status=Status(data["status"]),
            steps=data["steps"],
            seconds=data["seconds"],
            before=scores["before"],
            after=scores["after"],
            throughput=dict(data["throughput"]),
            timing_s=dict(data["timing_s"]),
            warmup=list(data.get("warmup", [])),
            iterations=list(data.get("iterations", [])),
            gain=dict(evals.get("gain", {})),
            message=data["message"],
        )


def write_summary(path: Path, summary: Summary) -> None:
    """Replace the summary."""
    write_atomic(path, to_json(summary.to_dict(), indent=2) + "\n")


def read_summary(path: Path) -> Summary | None:
    """The summary, or None if the run has not written one yet.

    Raises:
        RunDirError: the file is there and is no summary.
    """
    if not path.exists():
        return None
    try:
        return Summary.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise RunDirError(f"{path}: not a run's summary: {type(error).__name__}: {error}") from error
