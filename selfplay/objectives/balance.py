"""Branch balance: what each branch's advantages are multiplied by before the shared update (ANCORA section 4.5).

    scale_Q = (T_Q + T_S) / (2 T_Q)        scale_S = (T_Q + T_S) / (2 T_S)
    A_Q <- A_Q * scale_Q * w_Q             A_S <- A_S * scale_S * w_S

T_Q and T_S are the generated tokens of the Proposer's and the Solver's rows (`rows` counts rows: section D.6, remedy
ii). With a token-mean loss this gives both branches the same token mass before the weights apply.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from selfplay.objectives.config import BalanceConfig
from selfplay.objectives.registry import choose

# mode -> whether masses are rows (rather than tokens), and whether w_Q follows the norms
BALANCE_MODES: Mapping[str, tuple[bool, bool]] = {
    "static": (False, False),
    "adaptive": (False, True),
    "rows": (True, False),
}
# frozen branch -> (keeps the Proposer's loss, keeps the Solver's loss): Freeze-Q and Freeze-S of section 5.3
FREEZE: Mapping[str, tuple[float, float]] = {"none": (1.0, 1.0), "proposer": (0.0, 1.0), "solver": (1.0, 0.0)}


@dataclass(frozen=True)
class BranchMass:
    """What one branch contributes to a batch."""

    tokens: int  # generated tokens that carry loss
    rows: int  # trajectories
    norm: float  # ||U||_2 of the token advantages before balancing; read by `adaptive` only


@dataclass(frozen=True)
class BranchWeights:
    """Scales and weights of both branches; a branch's advantages are multiplied by scale * w."""

    scale_q: float
    scale_s: float
    w_q: float
    w_s: float
    t_q: int  # mass of the Proposer's branch: tokens, or rows under `rows`
    t_s: int

    @property
    def multiplier_q(self) -> float:
        return self.scale_q * self.w_q

    @property
    def multiplier_s(self) -> float:
        return self.scale_s * self.w_s


def branch_mass(advantages: ArrayLike, tokens: ArrayLike) -> BranchMass:
    """Mass of a branch from its rows' advantages [R] and generated token counts [R].

    A row's advantage is shared by its tokens, so ||U||_2^2 = sum_i tokens_i * A_i^2.
    """
    a = np.asarray(advantages, dtype=np.float64)
    t = np.asarray(tokens, dtype=np.int64)
    if a.shape != t.shape or a.ndim != 1:
        raise ValueError(f"one advantage and one token count per row: got {a.shape} and {t.shape}")
    if (t < 0).any():
        raise ValueError("token counts must not be negative")
    return BranchMass(tokens=int(t.sum()), rows=len(t), norm=math.sqrt(float((t * a * a).sum())))


def branch_weights(
    proposer: BranchMass,
    solver: BranchMass,
    config: BalanceConfig,
    valid_rate: float,
    freeze: str = "none",
) -> BranchWeights:
    """Scales and weights of one batch (sections 4.5, D.6, D.7).

    A missing branch: when every proposal was rejected there are no Solver tokens. T_S = 0 leaves no ratio to equalise,
    so both scales are 1 (not the limit scale_Q = 1/2, which would halve the only branch that can repair the loss of
    validity); the weights stay. `adaptive` falls back on the static w_Q when either norm is 0: a branch without signal
    gives nothing to match.

    Args:
        valid_rate: accepted share of this batch's proposals, in [0, 1]; under `rescue.threshold` w_Q >= `rescue.floor`.
        freeze: none | proposer | solver; a frozen branch has weight 0. It comes last, so no floor revives it.

    Raises:
        ValueError: unknown mode or freeze, or a valid rate outside [0, 1].
    """
    by_rows, adaptive = choose("balance mode", BALANCE_MODES, config.mode)
    keep_q, keep_s = choose("freeze", FREEZE, freeze)
    if not 0.0 <= valid_rate <= 1.0:
        raise ValueError(f"valid_rate must lie in [0, 1], got {valid_rate}")
    t_q, t_s = (proposer.rows, solver.rows) if by_rows else (proposer.tokens, solver.tokens)
    if t_q > 0 and t_s > 0:
        scale_q, scale_s = (t_q + t_s) / (2 * t_q), (t_q + t_s) / (2 * t_s)
    else:
        scale_q = scale_s = 1.0
    w_q = config.w_q
    if adaptive and proposer.norm > 0 and solver.norm > 0:
        w_q = max(config.adaptive_min, config.adaptive_ratio * scale_s * solver.norm / proposer.norm)
    if valid_rate < config.rescue.threshold:
        w_q = max(w_q, config.rescue.floor)
    weights = BranchWeights(scale_q, scale_s, w_q, config.w_s, t_q, t_s)
    return replace(weights, w_q=weights.w_q * keep_q, w_s=weights.w_s * keep_s)
