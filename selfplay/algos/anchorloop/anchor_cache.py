"""The anchor's answers, kept by content: what has been sampled once is never sampled again, in this launch or the next.

A key stands for the anchor's weights, the task, how it is sampled, and the batch it belongs to (two batches with one
task have groups of their own).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selfplay.backbones.cache import content_hash
from selfplay.runs.append_log import AppendLog

Answers = list[str | None]  # of one group, as they were written


@dataclass(frozen=True)
class AnchorKey:
    """What a group of anchor rollouts depends on. `sampling` are JSON values."""

    weights: str  # SHA-256 of the anchor's
    question: str
    sampling: Mapping[str, Any]
    batch: str

    def digest(self) -> str:
        return content_hash(
            {"weights": self.weights, "question": self.question, "sampling": dict(self.sampling), "batch": self.batch}
        )


class AnchorCache:
    """The file of one run, read once and appended to."""

    def __init__(self, path: Path) -> None:
        """Raises ValueError, naming the file, for one that holds anything but groups of answers."""
        self.hits = self.misses = 0
        self._log = AppendLog(path)
        try:
            self._groups: dict[str, Answers] = {str(r["key"]): list(r["answers"]) for r in self._log.records}
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}: a record is no group of answers: {error}") from error

    def get(self, key: AnchorKey) -> Answers | None:
        """A group's answers, counted as a hit or a miss."""
        found = self._groups.get(key.digest())
        self.hits += found is not None
        self.misses += found is None
        return found

    def hit_rate(self) -> float:
        """The share of hits since the last call; 0 if nothing was asked."""
        hits, asked = self.hits, self.hits + self.misses
        self.hits = self.misses = 0
        return hits / asked if asked else 0.0

    def put(self, key: AnchorKey, answers: Sequence[str | None]) -> None:
        """Keep a group. The same key twice is an error of the caller.

        Raises:
            ValueError: there is one already.
        """
        digest = key.digest()
        if digest in self._groups:
            raise ValueError(f"the anchor was sampled twice for {key.question!r} in {key.batch}")
        self._groups[digest] = list(answers)
        self._log.append({"key": digest, "batch": key.batch, "question": key.question, "answers": list(answers)})

    def __len__(self) -> int:
        return len(self._groups)

    def close(self) -> None:
        self._log.close()
