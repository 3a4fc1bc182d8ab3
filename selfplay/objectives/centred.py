"""Centred advantages (BenchEvolver, appendix D.2): the reward minus its group's mean, and no division."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def centred(rewards: ArrayLike, groups: Sequence[Hashable]) -> NDArray[np.float64]:
    """Advantages [R] of rows [R] in any order: each reward minus the mean over the rows of the same group.

    Raises ValueError: lengths differ, or a reward is not finite.
    """
    r = np.asarray(rewards, dtype=np.float64)
    if r.ndim != 1 or len(r) != len(groups):
        raise ValueError(f"one group per reward: got {r.shape} and {len(groups)} groups")
    if not np.isfinite(r).all():
        raise ValueError("rewards must be finite")
    members: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    advantages = np.zeros(len(r))
    for rows in members.values():
        advantages[rows] = r[rows] - r[rows].mean()
    return advantages
