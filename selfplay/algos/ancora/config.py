"""ANCORA's settings, with the paper's defaults (`conf/algo/ancora.yaml` says where `tiny` departs from them)."""

from __future__ import annotations

from dataclasses import dataclass, field

from selfplay.curriculum.config import CurriculumConfig, NoveltyConfig
from selfplay.objectives.config import BalanceConfig, ProposerRewardConfig

FEEDBACK_TOKENS = 64  # of a verifier's message that the Solver is shown between two turns
FEEDBACK_ROOM = FEEDBACK_TOKENS + 32  # with what the chat template puts around it


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
    repair_turns: int = 0  # further turns after a failure, with the verifier's message (S-ReAct)


@dataclass
class DistillConfig:
    """Rounds 1.. of the warm-up: a short ANCORA phase, and supervised steps on its verified rollouts (section 5.1)."""

    steps: int = 20  # of the ANCORA phase (ours: the paper gives no length)
    play_lr: float = 1e-6  # of its updates
    epochs: int = 2
    batch_size: int = 64
    lr: float = 1e-5  # of the supervised steps
    start: str = "previous"  # previous | backbone: the weights that the supervised steps begin with
    max_sim: float = 0.90  # MinHash similarity above which a rollout repeats an earlier one (ours)
    stop_on_drop: bool = True  # a round that lowers the held-out valid rate beyond chance is taken back and is the last
    validity_samples: int = 4  # proposals for each held-out specification, for that rate
    eval_samples: int = 8  # attempts at each held-out specification, for the table of the rounds


@dataclass
class WarmupConfig:
    """Iterative self-distilled warm-up: round 0 on demonstrations, then rounds on own verified rollouts."""

    steps: int = 0  # supervised steps of round 0; 0: none, the backbone is used as it is
    rounds: int = 0  # rounds after round 0; the paper: 3
    distill: DistillConfig = field(default_factory=DistillConfig)
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
    """Held-out pass@k: single turns, sampled at training's temperature."""

    every: int = 0  # steps between evaluations; 0: before and after only
    samples: int = 100  # attempts per held-out specification: n of the pass@k estimator
    heldout: str = ""  # empty: the held-out specifications that ship; otherwise a JSONL file
    shots: int = 0  # solved roots before each question (few-shot prompting)
    roots_allowed: bool = False  # a suite may hold roots: test-time training
    more: dict[str, str] = field(default_factory=dict)  # further suites: name -> JSONL file


@dataclass
class AncoraConfig:
    name: str = "ancora"
    steps: int = 2000
    seeds_per_step: int = 8  # B
    proposals_per_seed: int = 8  # N
    attempts_per_spec: int = 8  # K
    max_solver_samples: int = 0  # the run ends with the step that reaches so many attempts; 0: `steps` alone counts
    max_prompt_tokens: int = 2048
    roots: str = ""  # empty: the roots that ship; otherwise a JSONL file
    pool: str = ""  # the `pool/` of an earlier run, to start from in the place of the roots alone
    reset_pass_rate: bool = True  # forget the pass rates of that pool: they are another solver's
    freeze: str = "none"  # none | proposer | solver
    on_collapse: str = "warn"  # warn | stop | rollback: what follows 20 steps with a valid rate below 0.30
    proposer: ProposerConfig = field(default_factory=ProposerConfig)
    solver: SolverConfig = field(default_factory=SolverConfig)
    balance: BalanceConfig = field(default_factory=BalanceConfig)
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    novelty: NoveltyConfig = field(default_factory=NoveltyConfig)
    warmup: WarmupConfig = field(default_factory=WarmupConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)

    def max_response(self) -> int:
        """Tokens that the longest row can have after its prompt."""
        turns = self.solver.repair_turns
        return max(self.proposer.max_tokens, self.solver.max_tokens * (1 + turns) + FEEDBACK_ROOM * turns)

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value or combination that cannot work."""
        for key, value in (
            ("steps", self.steps),
            ("solver.repair_turns", self.solver.repair_turns),
            ("warmup.steps", self.warmup.steps),
            ("warmup.rounds", self.warmup.rounds),
            ("warmup.distill.lr", self.warmup.distill.lr),
            ("warmup.distill.play_lr", self.warmup.distill.play_lr),
            ("eval.every", self.eval.every),
            ("eval.shots", self.eval.shots),
            ("max_solver_samples", self.max_solver_samples),
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
            ("warmup.distill.steps", self.warmup.distill.steps),
            ("warmup.distill.epochs", self.warmup.distill.epochs),
            ("warmup.distill.batch_size", self.warmup.distill.batch_size),
            ("warmup.distill.validity_samples", self.warmup.distill.validity_samples),
            ("warmup.distill.eval_samples", self.warmup.distill.eval_samples),
            ("eval.samples", self.eval.samples),
            ("optim.grad_clip", self.optim.grad_clip),
            ("optim.clip_ratio", self.optim.clip_ratio),
        ):
            if value <= 0:
                raise ValueError(f"{key}: {value} is not allowed; it must be above 0")
        for key, value in (
            ("warmup.proposer_share", self.warmup.proposer_share),
            ("warmup.wrong_share", self.warmup.wrong_share),
            ("warmup.distill.max_sim", self.warmup.distill.max_sim),
        ):
            if not 0 <= value <= 1:
                raise ValueError(f"{key}: {value} is not allowed; it lies in [0, 1]")
        if self.sampling.temperature <= 0:
            raise ValueError(f"sampling.temperature: {self.sampling.temperature} is not allowed; it must be above 0")
        if not 0 < self.sampling.top_p <= 1:
            raise ValueError(f"sampling.top_p: {self.sampling.top_p} is not allowed; it lies in (0, 1]")
        if not 0 <= self.optim.warmup_ratio < 1:
            raise ValueError(f"optim.warmup_ratio: {self.optim.warmup_ratio} is not allowed; it lies in [0, 1)")
        for key, word, allowed in (
            ("proposer.rejected", self.proposer.rejected, ("zero_reward", "drop")),
            ("proposer.reward", self.proposer.reward, ("band", "variance", "exponential")),
            ("balance.mode", self.balance.mode, ("static", "adaptive", "rows")),
            ("freeze", self.freeze, ("none", "proposer", "solver")),
            ("on_collapse", self.on_collapse, ("warn", "stop", "rollback")),
            ("warmup.distill.start", self.warmup.distill.start, ("previous", "backbone")),
        ):
            if word not in allowed:
                raise ValueError(f"{key}: {word!r} is not allowed; it is {', '.join(allowed[:-1])} or {allowed[-1]}")


@dataclass
class RejectionSettings:
    """The baselines' supervised steps on verified attempts."""

    specs_per_step: int = 64  # specifications attempted (RFT) or proposed (PSV) in a step: B * N of ANCORA
    epochs: int = 2
    batch_size: int = 64
    max_sim: float = 0.90  # MinHash similarity above which an attempt repeats an earlier one
    shots: int = 4  # examples in the Proposer's prompt (PSV)


@dataclass
class RejectionConfig(AncoraConfig):
    """`algo=rft` and `algo=psv`: ANCORA's settings, and those of rejection fine-tuning; `optim.lr` is its rate."""

    rejection: RejectionSettings = field(default_factory=RejectionSettings)

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value or combination that cannot work."""
        super().check()
        for key, value in (
            ("rejection.specs_per_step", self.rejection.specs_per_step),
            ("rejection.epochs", self.rejection.epochs),
            ("rejection.batch_size", self.rejection.batch_size),
        ):
            if value <= 0:
                raise ValueError(f"{key}: {value} is not allowed; it must be above 0")
        if self.solver.repair_turns:
            raise ValueError(
                f"solver.repair_turns: {self.solver.repair_turns} is not allowed with algo={self.name}; it is 0"
            )
        for key, word in (("freeze", self.freeze), ("on_collapse", self.on_collapse)):
            if word not in ("none", "warn"):
                raise ValueError(f"{key}: {word!r} is not allowed with algo={self.name}; it is none or warn")
