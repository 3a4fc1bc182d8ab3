"""What each phase's rows are worth, as the engine's advantage functions, and the numbers to log of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from selfplay.algos.anchorloop.config import CurriculumPhase
from selfplay.algos.anchorloop.episodes import from_record
from selfplay.curriculum.bleu import repetition
from selfplay.objectives.cross_reference import standardised
from selfplay.objectives.curriculum_reward import TaskReward, task_reward

if TYPE_CHECKING:
    from selfplay.engine.trainer import RowView

NOTHING = TaskReward(0.0, 0.0, 0.0, 0.0, 0.0)


class CurriculumAdvantages:
    """GRPO over the tasks of one prompt, by the anchor-referenced reward. Keeps the last batch's rewards."""

    def __init__(self, config: CurriculumPhase) -> None:
        self.config = config
        self.rewards: list[TaskReward] = []
        self.values: list[float] = []

    def __call__(self, rows: Sequence[RowView]) -> list[float]:
        self.rewards = batch_rewards([row.record for row in rows], self.config)
        by_group: dict[str, list[int]] = {}
        for i, row in enumerate(rows):
            by_group.setdefault(row.group, []).append(i)
        values = np.zeros(len(rows))
        for members in by_group.values():
            values[members] = standardised([self.rewards[i].value for i in members])
        self.values = values.tolist()
        return self.values


def batch_rewards(records: Sequence[Mapping[str, Any]], config: CurriculumPhase) -> list[TaskReward]:
    """The reward of every task of a batch; 0 for those of invalid format, which count in B all the same."""
    valid = [i for i, record in enumerate(records) if not record["reason"]]
    shares = repetition([records[i]["question"] for i in valid], config.repetition_distance)
    out = [NOTHING] * len(records)
    for i, share in zip(valid, shares, strict=True):
        record = records[i]
        out[i] = task_reward(
            from_record(record["current"]),
            from_record(record["anchor"]),
            record["tool_calls"],
            share * len(valid) / len(records),
            config.reward,
        )
    return out


def executor_advantages(rows: Sequence[RowView]) -> list[float]:
    """What each group was given when it was scored."""
    return [float(row.record["advantage"]) for row in rows]


# ---------------------------------------------------------------- numbers


def curriculum_metrics(rows: Sequence[Mapping[str, Any]], rewards: Sequence[TaskReward]) -> dict[str, float]:
    """Of one batch: format, rewards by term, the reference gap, resolution."""
    valid = [(row, reward) for row, reward in zip(rows, rewards, strict=True) if not row["reason"]]
    current = [from_record(row["current"]) for row, _ in valid]
    anchor = [from_record(row["anchor"]) for row, _ in valid]
    gaps = [c.share - a.share for c, a in zip(current, anchor, strict=True) if c.resolved and a.resolved]
    differ = [c.label != a.label for c, a in zip(current, anchor, strict=True) if c.resolved and a.resolved]
    return {
        "reward": mean(reward.value for reward in rewards),
        "format_valid": len(valid) / len(rows),
        "reward/uncertainty": mean(reward.uncertainty for _, reward in valid),
        "reward/tool": mean(reward.tool for _, reward in valid),
        "reward/frontier": mean(reward.frontier for _, reward in valid),
        "reward/repetition": mean(reward.repetition for _, reward in valid),
        "gap_positive": mean(gap > 0 for gap in gaps),
        "share/current": mean(one.share for one in current),
        "unresolved/current": mean(not one.resolved for one in current),
        "unresolved/anchor": mean(not one.resolved for one in anchor),
        "majorities_differ": mean(differ),
        "tool_calls": mean(row["tool_calls"] for row, _ in valid),
    }


def executor_metrics(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of one batch: agreement, effective-advantage variance, structure of A_hist, resolution, tool use."""
    groups = list({row["group"]: row for row in rows}.values())
    current = [from_record(row["current"]) for row in groups]
    anchor = [from_record(row["anchor"]) for row in groups]
    both = [(c, a) for c, a in zip(current, anchor, strict=True) if c.resolved and a.resolved]
    kinds = Counter(row["structure"] for row in groups)
    return {
        "reward": mean(row["reward"] for row in rows),
        "answered": mean(row["answer"] is not None for row in rows),
        "advantage_variance": mean(row["variance"] for row in groups),
        "share/current": mean(one.share for one in current),
        "share/anchor": mean(one.share for one in anchor),
        "unresolved/current": mean(not one.resolved for one in current),
        "unresolved/anchor": mean(not one.resolved for one in anchor),
        "majorities_differ": mean(c.label != a.label for c, a in both),
        **{f"structure/{kind}": kinds[kind] / len(groups) for kind in ("zero", "collinear", "other")},
        "tool_calls": mean(row["calls"] for row in rows),
        "tool_errors": sum(row["errors"] for row in rows) / max(1, sum(row["calls"] for row in rows)),
    }


def mean(values: Any) -> float:
    """The mean, 0 for none."""
    seen = [float(value) for value in values]
    return float(np.mean(seen)) if seen else 0.0
