"""Mean-normalised advantages (MLRL; ANCORA section 3.1).

    A_i = (R_i - mean(R)) / (mean(R) + eps),   eps = 1e-6

There is no division by the standard deviation. For binary rewards this weights a group by 1/(success rate), which makes
the expected gradient that of log P(success). A group whose rewards are all 0 carries no signal: its advantages are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from selfplay.objectives.registry import choose

EPS = 1e-6


def mean_normalised(rewards: ArrayLike) -> NDArray[np.float64]:
    """Advantages [G] of one group's rewards [G] (section 3.1).

    The formula assumes rewards >= 0. Penalties below 0 (the validity-aware reward) bring the mean near or under 0,
    where the quotient would blow up or flip; so the divisor is the mean of the positive rewards alone,
    A_i = (R_i - mean(R)) / (mean(max(R, 0)) + eps), and a group without any is only centred: A_i = R_i - mean(R).
    """
    r = np.asarray(rewards, dtype=np.float64)
    if r.ndim != 1 or r.size == 0:
        raise ValueError(f"rewards must be a non-empty vector, got shape {r.shape}")
    if not np.isfinite(r).all():
        raise ValueError("rewards must be finite")
    centred, earned = r - r.mean(), float(np.maximum(r, 0.0).mean())
    return centred / (earned + EPS) if earned > 0 else centred


ADVANTAGES: Mapping[str, Callable[[ArrayLike], NDArray[np.float64]]] = {"mean_normalised": mean_normalised}


def grouped(
    rewards: ArrayLike, roles: Sequence[Hashable], groups: Sequence[Hashable], estimator: str = "mean_normalised"
) -> NDArray[np.float64]:
    """Advantages [R] of rows [R] in any order, each normalised among the rows of equal (role, group).

    The Proposer's group is a seed (N rows), the Solver's a specification (K rows); sizes may differ and a group of one
    row gets an advantage of about 0. `estimator` names an entry of `ADVANTAGES`.

    Raises:
        ValueError: lengths differ, or the estimator is unknown.
    """
    r = np.asarray(rewards, dtype=np.float64)
    if not (r.ndim == 1 and len(r) == len(roles) == len(groups)):
        raise ValueError(f"one role and one group per reward: got {r.shape}, {len(roles)} roles, {len(groups)} groups")
    normalise = choose("advantage", ADVANTAGES, estimator)
    members: dict[tuple[Hashable, Hashable], list[int]] = {}
    for row, key in enumerate(zip(roles, groups, strict=True)):
        members.setdefault(key, []).append(row)
    advantages = np.zeros(len(r), dtype=np.float64)
    for rows in members.values():
        advantages[rows] = normalise(r[rows])
    return advantages
