"""What an attempt is worth (BenchEvolver, appendix D.2 and D.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from selfplay.algos.benchevolver.attempts import Grade
from selfplay.objectives.centred import centred

if TYPE_CHECKING:
    from selfplay.engine.trainer import RowView

UNFINISHED = -0.1


def reward(grade: Grade, finished: bool) -> float:
    """r = c - 0.1 (1 - f): c all tests pass, f there is a fenced block; -0.1 where the token budget was used up."""
    return float(grade.passed) - 0.1 * (not grade.has_code) if finished else UNFINISHED


def advantages(rows: Sequence[RowView]) -> list[float]:
    """The reward minus the mean over the attempts at the same task."""
    return list(map(float, centred([row.reward for row in rows], [row.group for row in rows])))


def metrics(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of one batch: reward, solved, length, how attempts failed, groups that carry a signal."""
    groups: dict[str, set[float]] = {}
    for row in rows:
        groups.setdefault(row["group"], set()).add(row["reward"])
    count = len(rows)
    outcomes = [row["verdict"] for row in rows]
    return {
        "reward": sum(row["reward"] for row in rows) / count,
        "solved": outcomes.count("OK") / count,
        "response_tokens": sum(row["tokens"] for row in rows) / count,
        "mixed_groups": sum(len(seen) > 1 for seen in groups.values()) / len(groups),
        **{f"outcome/{name}": outcomes.count(name) / count for name in sorted(set(outcomes))},
    }
