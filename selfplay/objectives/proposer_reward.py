"""What a proposal earns: U(m, K), for m solved attempts of K and p = m / K (ANCORA section 4.2.3, equations 3 and 4).

A rejected proposal (V = 0) earns 0, or -lambda under the validity-aware variant of section D.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from selfplay.objectives.config import ProposerRewardConfig
from selfplay.objectives.registry import choose


def band(m: int, k: int) -> float:
    """1[m = 1]: solved, but only just. The default of the main run (equation 4)."""
    return float(m == 1)


def variance(m: int, k: int) -> float:
    """4 p (1 - p): the Bernoulli variance, scaled to peak at 1 for p = 1/2 (equation 3)."""
    p = m / k
    return 4.0 * p * (1.0 - p)


def exponential(m: int, k: int) -> float:
    """e^{-K p} - e^{-K}: low-pass, 1 - e^{-K} for the unsolved and 0 for the always solved (equation 3)."""
    return math.exp(-m) - math.exp(-k)  # K p = m


PROPOSER_REWARDS: Mapping[str, Callable[[int, int], float]] = {
    "band": band,
    "variance": variance,
    "exponential": exponential,
}


def proposer_reward(valid: bool, m: int, k: int, config: ProposerRewardConfig) -> float:
    """R = V * U, or R = V * U - lambda * (1 - V) when `validity_aware` (section D.5).

    Args:
        valid: whether the gate accepted the proposal; `m` and `k` are not read when it did not.
        m: verified attempts; k: attempts.

    Raises:
        ValueError: unknown reward name, or not 0 <= m <= k with k >= 1.
    """
    utility = choose("proposer reward", PROPOSER_REWARDS, config.name)
    if not valid:
        return -config.invalid_penalty if config.validity_aware else 0.0
    if not (k >= 1 and 0 <= m <= k):
        raise ValueError(f"need 0 <= m <= K and K >= 1, got m={m}, K={k}")
    return utility(m, k)
