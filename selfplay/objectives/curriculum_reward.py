"""The anchor-referenced reward of a task (AnchorLoop section 3.3).

    R_unc   = 1 - 2 |p_cur - 0.5|
    R_tool  = tool_weight * min(mean executed tool calls per rollout, tool_cap)
    R_front = max(0, p_cur - p_anchor)                  0 if either group is unresolved
    R_rep   = |cluster(task)| / B
    R       = 1[format valid] * max(0, R_unc + R_tool + lambda * R_front - R_rep)

An unresolved current group has p_cur = 0, so that its R_unc is 0: nobody knows what it is uncertain about.
"""

from __future__ import annotations

from dataclasses import dataclass

from selfplay.objectives.voting import Resolution


@dataclass
class CurriculumRewardConfig:
    """Weights of the terms."""

    uncertainty: float = 1.0
    tool: float = 0.05
    tool_cap: float = 4.0
    frontier: float = 0.4  # the paper's lambda
    repetition: float = 1.0

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value that cannot work."""
        for key in ("uncertainty", "tool", "tool_cap", "frontier", "repetition"):
            if getattr(self, key) < 0:
                raise ValueError(f"{key}: {getattr(self, key)} is not allowed; it must be 0 or more")


@dataclass(frozen=True)
class TaskReward:
    """The terms, unweighted, and the reward."""

    uncertainty: float
    tool: float
    frontier: float
    repetition: float
    value: float


def task_reward(
    current: Resolution,
    anchor: Resolution,
    tool_calls: float,
    repetition: float,
    config: CurriculumRewardConfig,
) -> TaskReward:
    """The reward of a task of valid format; one of invalid format gets 0 and is asked to nobody.

    `tool_calls` is the mean number of executed calls over the current group's rollouts, `repetition` the share of the
    batch that lies in the task's cluster, in (0, 1].
    """
    uncertainty = 1 - 2 * abs(current.share - 0.5)
    tool = min(tool_calls, config.tool_cap)
    frontier = max(0.0, current.share - anchor.share) if current.resolved and anchor.resolved else 0.0
    total = config.uncertainty * uncertainty + config.tool * tool + config.frontier * frontier
    return TaskReward(uncertainty, tool, frontier, repetition, max(0.0, total - config.repetition * repetition))
