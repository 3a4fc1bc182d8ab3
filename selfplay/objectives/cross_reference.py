"""ADPO with a cross-reference advantage (AnchorLoop section 3.2; ADPO is Agent0's, arXiv 2511.16043).

    A_cur  = (r_cur  - mean(r_cur))  / (std(r_cur)  + eps)        over the G current rollouts
    A_hist = (r_hist - mean(r_hist)) / (std(r_hist) + eps)        over the same rollouts
    A      = s(p) * (A_cur + alpha * A_hist)

The standard deviation is the sample's (divisor G - 1), as in verl's GRPO. Both terms vanish where all current answers
agree: that is a property, not a fault.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfplay.objectives.voting import Resolution, matches, resolve

EPS = 1e-6
HISTORICAL = ("anchor_majority", "majority_difference", "none")
NORMS = ("std", "center")

Vector = NDArray[np.float64]


@dataclass
class AdpoConfig:
    """Agent0's scale and clip bound by self-consistency, and AnchorLoop's historical term."""

    alpha: float = 0.6  # weight of the historical term; 0 is Agent0's ADPO
    historical: str = "anchor_majority"  # anchor_majority | majority_difference | none
    historical_norm: str = "std"  # std | center
    p_low: float = 0.3
    p_high: float = 0.8
    s_min: float = 0.6  # scale of a task at or below p_low; 1 at or above p_high
    clip: float = 0.2  # the ratio's bound, below always and above at or over p_high
    clip_bonus: float = 0.1  # added above at or below p_low

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value that cannot work."""
        for key, value, allowed in (
            ("historical", self.historical, HISTORICAL),
            ("historical_norm", self.historical_norm, NORMS),
        ):
            if value not in allowed:
                raise ValueError(f"{key}: {value!r} is not allowed; it is {', '.join(allowed)}")
        if not 0 <= self.p_low < self.p_high <= 1:
            raise ValueError(f"p_low: {self.p_low} is not allowed; 0 <= p_low < p_high={self.p_high} <= 1")
        if not 0 <= self.s_min <= 1:
            raise ValueError(f"s_min: {self.s_min} is not allowed; it lies in [0, 1]")
        for key, number in (("alpha", self.alpha), ("clip_bonus", self.clip_bonus)):
            if number < 0:
                raise ValueError(f"{key}: {number} is not allowed; it must be 0 or more")
        if not 0 < self.clip < 1:
            raise ValueError(f"clip: {self.clip} is not allowed; it lies between 0 and 1")


@dataclass(frozen=True)
class TaskAdvantages:
    """One task's current group; vectors of shape (G,). An unresolved one is not `trained` on: its values are 0."""

    values: Vector
    current: Vector
    historical: Vector
    resolution: Resolution
    clip_high: float
    trained: bool


def scale(p: float, config: AdpoConfig) -> float:
    """s(p) = s_min + (1 - s_min) * clip((p - p_low) / (p_high - p_low), 0, 1)."""
    place = (p - config.p_low) / (config.p_high - config.p_low)
    return config.s_min + (1 - config.s_min) * float(np.clip(place, 0, 1))


def clip_high(p: float, config: AdpoConfig) -> float:
    """eps_high(p) = clip + clip_bonus * clip((p_high - p) / (p_high - p_low), 0, 1)."""
    place = (config.p_high - p) / (config.p_high - config.p_low)
    return config.clip + config.clip_bonus * float(np.clip(place, 0, 1))


def standardised(rewards: Sequence[float] | Vector, norm: str = "std") -> Vector:
    """(r - mean) / (std + eps) of a group's rewards (G,), or with `center` without the divisor; GRPO's advantage."""
    r = np.asarray(rewards, dtype=np.float64)
    centred = r - r.mean()
    if norm == "center" or len(r) < 2:
        return centred
    return np.asarray(centred / (r.std(ddof=1) + EPS))


def task_advantages(answers: Sequence[Hashable | None], anchor: Resolution, config: AdpoConfig) -> TaskAdvantages:
    """Advantages (G,) of a task's current rollouts, by their answers and the anchor group's resolution.

    An unresolved current group is left out of the update. An unresolved anchor group has no historical term.
    """
    current = resolve(answers)
    zeros = np.zeros(len(answers))
    if not current.resolved:
        return TaskAdvantages(zeros, zeros, zeros, current, config.clip, trained=False)
    r_current = np.array(matches(answers, current.label))
    a_current, a_historical = standardised(r_current), zeros
    if anchor.resolved and config.historical != "none":
        r_historical = np.array(matches(answers, anchor.label))
        if config.historical == "majority_difference":
            r_historical = r_current - r_historical
        a_historical = standardised(r_historical, config.historical_norm)
    values = scale(current.share, config) * (a_current + config.alpha * a_historical)
    return TaskAdvantages(values, a_current, a_historical, current, clip_high(current.share, config), trained=True)


def structure(task: TaskAdvantages) -> str:
    """How A_hist lies to A_cur: `zero`, `collinear` (a positive multiple) or `other`."""
    a, b = task.current, task.historical
    if not np.abs(b).max(initial=0.0) > 1e-9:
        return "zero"
    cosine = float(a @ b) / (float(np.linalg.norm(a) * np.linalg.norm(b)) + 1e-300)
    return "collinear" if cosine > 1 - 1e-9 else "other"


def effective_variance(tasks: Sequence[TaskAdvantages]) -> float:
    """Mean over groups of the variance of A within the group; 0 for consensus and for unresolved groups."""
    return float(np.mean([task.values.var() for task in tasks])) if tasks else 0.0
