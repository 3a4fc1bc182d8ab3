"""Settings of the objectives, with ANCORA's published defaults (arXiv 2604.27644, sections 4.2.3, 4.5, D.6, D.7)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class RescueConfig:
    """Floor under the Proposer's weight while few of its outputs are valid (section D.6, remedy i).

    `threshold = 0` (the default) never triggers: the paper's main run has no rescue.
    """

    floor: float = 1.0  # w_Q is at least this while the valid rate is below `threshold`
    threshold: float = 0.0  # valid rate in [0, 1] under which the floor holds


@dataclass
class BalanceConfig:
    """How the two branches of the policy share one update (section 4.5)."""

    mode: str = "static"  # static | adaptive | rows; see `selfplay.objectives.balance.BALANCE_MODES`
    w_q: float = 0.375  # static weight of the Proposer's branch (q_scale in the paper)
    w_s: float = 1.0  # static weight of the Solver's branch
    adaptive_ratio: float = 0.5  # r: norm of the Proposer's branch as a share of the Solver's (adaptive only)
    adaptive_min: float = 0.125  # w_min: least Proposer weight (adaptive only)
    rescue: RescueConfig = field(default_factory=RescueConfig)


@dataclass
class ProposerRewardConfig:
    """What a proposal earns from m solved attempts of K (section 4.2.3)."""

    name: str = "band"  # band | variance | exponential; see `selfplay.objectives.proposer_reward.PROPOSER_REWARDS`
    validity_aware: bool = False  # R = V*U - lambda*(1 - V) in place of R = V*U (section D.5)
    invalid_penalty: float = 0.1  # lambda, read only when `validity_aware`
