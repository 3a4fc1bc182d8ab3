"""ANCORA's settings, with the paper's defaults (`conf/algo/ancora.yaml` says where `tiny` departs from them)."""

from __future__ import annotations

from dataclasses import dataclass, field

from selfplay.curriculum.config import CurriculumConfig, NoveltyConfig
from selfplay.objectives.config import BalanceConfig, ProposerRewardConfig


@dataclass
class ProposerConfig:
    reward: str = "band"  # band | variance | exponential
    validity_aware: bool = False  # R = V*U - invalid_penalty*(1 - V) in place of R = V*U (section D.5)
    invalid_penalty: float = 0.1
    rejected: str = "zero_reward"  # zero_reward | drop: a rejected proposal is left out of its group and of the loss
    max_tokens: int = 2048

    def reward_config(self) -> ProposerRewardConfig:
        return ProposerRewardConfig(self.reward, self.validity_aware, self.invalid_penalty)


@dataclass
class SolverConfig:
    max_tokens: int = 2048


@dataclass
class WarmupConfig:
    """Supervised warm-up on demonstrations, before reinforcement."""

    steps: int = 0  # 0: none, the backbone is used as it is
    batch_size: int = 64
    lr: float = 1e-5
    demos: str = ""  # empty: the project's generated demonstrations; otherwise a JSONL file
    n_demos: int = 12000
    proposer_share: float = 0.5  # of the generated demonstrations
    wrong_share: float = 0.0  # of the generated solver demonstrations: these are wrong on purpose (see `demos.spoil`)
    seed: int = 0  # of the demonstrations and their order: apart from the run's, so that runs share one warmed-up model
    cache: bool = True


@dataclass
class OptimConfig:
    lr: float = 1e-6
    warmup_ratio: float = 0.05  # share of the steps in which the learning rate rises linearly
    weight_decay: float = 0.0
    grad_clip: float = 1.0
    clip_ratio: float = 0.2
    kl_coef: float = 0.0
    entropy_coef: float = 0.0


@dataclass
class SamplingConfig:
    temperature: float = 1.0
    top_p: float = 1.0


@dataclass
class EvalConfig:
    """Held-out pass@1, sampled as in training."""

    every: int = 0  # steps between evaluations; 0: before and after only
    samples: int = 32  # attempts per held-out specification
    heldout: str = ""  # empty: the roots that ship; otherwise a JSONL file


@dataclass
class AncoraConfig:
    name: str = "ancora"
    steps: int = 2000
    seeds_per_step: int = 8  # B
    proposals_per_seed: int = 8  # N
    attempts_per_spec: int = 8  # K
    max_prompt_tokens: int = 2048
    roots: str = ""  # empty: the roots that ship; otherwise a JSONL file
    freeze: str = "none"  # none | proposer | solver
    proposer: ProposerConfig = field(default_factory=ProposerConfig)
    solver: SolverConfig = field(default_factory=SolverConfig)
    balance: BalanceConfig = field(default_factory=BalanceConfig)
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    novelty: NoveltyConfig = field(default_factory=NoveltyConfig)
    warmup: WarmupConfig = field(default_factory=WarmupConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value or combination that cannot work."""
        for key, value in (
            ("steps", self.steps),
            ("warmup.steps", self.warmup.steps),
            ("eval.every", self.eval.every),
            ("optim.lr", self.optim.lr),
            ("optim.kl_coef", self.optim.kl_coef),
            ("optim.weight_decay", self.optim.weight_decay),
            ("proposer.invalid_penalty", self.proposer.invalid_penalty),
            ("balance.w_q", self.balance.w_q),
            ("balance.w_s", self.balance.w_s),
        ):
            if value < 0:
                raise ValueError(f"{key}: {value} is not allowed; it must be 0 or more")
        for key, value in (
            ("seeds_per_step", self.seeds_per_step),
            ("proposals_per_seed", self.proposals_per_seed),
            ("attempts_per_spec", self.attempts_per_spec),
            ("max_prompt_tokens", self.max_prompt_tokens),
            ("proposer.max_tokens", self.proposer.max_tokens),
            ("solver.max_tokens", self.solver.max_tokens),
            ("warmup.batch_size", self.warmup.batch_size),
            ("warmup.n_demos", self.warmup.n_demos),
            ("eval.samples", self.eval.samples),
            ("optim.grad_clip", self.optim.grad_clip),
            ("optim.clip_ratio", self.optim.clip_ratio),
        ):
            if value <= 0:
                raise ValueError(f"{key}: {value} is not allowed; it must be above 0")
        for key, value in (
            ("warmup.proposer_share", self.warmup.proposer_share),
            ("warmup.wrong_share", self.warmup.wrong_share),
        ):
            if not 0 <= value <= 1:
                raise ValueError(f"{key}: {value} is not allowed; it lies in [0, 1]")
        if self.sampling.temperature <= 0:
            raise ValueError(f"sampling.temperature: {self.sampling.temperature} is not allowed; it must be above 0")
        if not 0 < self.sampling.top_p <= 1:
            raise ValueError(f"sampling.top_p: {self.sampling.top_p} is not allowed; it lies in (0, 1]")
        if not 0 <= self.optim.warmup_ratio < 1:
            raise ValueError(f"optim.warmup_ratio: {self.optim.warmup_ratio} is not allowed; it lies in [0, 1)")
        if self.proposer.rejected not in ("zero_reward", "drop"):
            raise ValueError(f"proposer.rejected: {self.proposer.rejected!r} is not allowed; it is zero_reward or drop")
        if self.proposer.reward not in ("band", "variance", "exponential"):
            raise ValueError(
                f"proposer.reward: {self.proposer.reward!r} is not allowed; it is band, variance or exponential"
            )
        if self.balance.mode not in ("static", "adaptive", "rows"):
            raise ValueError(f"balance.mode: {self.balance.mode!r} is not allowed; it is static, adaptive or rows")
        if self.freeze not in ("none", "proposer", "solver"):
            raise ValueError(f"freeze: {self.freeze!r} is not allowed; it is none, proposer or solver")
