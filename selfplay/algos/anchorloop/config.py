"""AnchorLoop's settings, with the paper's defaults; `conf/algo/sizes/anchorloop_tiny.yaml` has those of `tiny`."""

from __future__ import annotations

from dataclasses import dataclass, field

from selfplay.objectives.cross_reference import AdpoConfig
from selfplay.objectives.curriculum_reward import CurriculumRewardConfig

CURRICULUM, EXECUTOR = "curriculum", "executor"


@dataclass
class RolloutSizes:
    """One role's rollouts. `max_tokens` counts everything after the prompt, tool output included."""

    max_tokens: int = 4096
    turns: int = 4  # of the tool, at most; 0: no tool
    output_tokens: int = 512  # of one tool output that the model gets to see


@dataclass
class CurriculumPhase:
    """Phase 2 of an iteration: GRPO on tasks that are put to the frozen model."""

    steps: int = 16
    prompts: int = 16  # of a step; times `tasks_per_prompt` it is the batch B = 64
    tasks_per_prompt: int = 4
    rollouts: RolloutSizes = field(default_factory=RolloutSizes)
    reward: CurriculumRewardConfig = field(default_factory=CurriculumRewardConfig)
    repetition_distance: float = 0.5  # d_rep: 1 - BLEU under which tasks are one cluster


@dataclass
class PoolPhase:
    """Phase 3: the tasks that the executor is trained on."""

    tasks: int = 1024  # sampled; what passes the format is kept
    filter: str = "none"  # none (AnchorLoop) | consistency (Agent0: those whose self-consistency lies in the band)
    band: list[float] = field(default_factory=lambda: [0.3, 0.8])
    drop_contaminated: bool = True  # tasks that share text with an evaluation set never reach the executor
    ngram: int = 8  # words that a task and an evaluation task share, for that


@dataclass
class AnchorSettings:
    """The reference: the executor as it was before this iteration."""

    refresh_every: int = 1  # iterations; 0: the backbone for good
    cache: bool = True  # rollouts once an iteration; false: again for every inner step (the paper's uncached arm)


@dataclass
class ExecutorPhase:
    """Phases 4 and 5: ADPO with the cross-reference advantage on the pool."""

    tasks_per_step: int = 64
    inner_steps: int = 2  # optimizer steps on one batch of tasks, each with fresh current rollouts
    batches: int = 16  # of an iteration; fewer if the pool holds fewer
    group: int = 8  # G
    rollouts: RolloutSizes = field(default_factory=RolloutSizes)
    adpo: AdpoConfig = field(default_factory=AdpoConfig)


@dataclass
class LoopOptim:
    lr: float = 1e-6  # constant
    curriculum_lr: float = 1e-6
    kl_coef: float = 1e-2  # to the backbone, low_var_kl
    update_epochs: int = 1  # optimizer steps on one set of rollouts; from the second on the clip bound acts
    grad_clip: float = 1.0
    weight_decay: float = 0.01


@dataclass
class LoopWarmup:
    """Supervised steps before the first iteration, for backbones that know neither role; 0: none."""

    steps: int = 0
    batch_size: int = 64
    lr: float = 1e-5
    n_demos: int = 12000
    curriculum_share: float = 0.25
    wrong_share: float = 0.0  # of the executor's demonstrations: these hold a slip
    seed: int = 0  # apart from the run's, so that runs share the warmed-up model
    cache: bool = True


@dataclass
class LoopEval:
    """Held-out accuracy of the executor, with the tool."""

    heldout: str = ""  # JSONL of {"question", "answer"}; empty: the shipped arithmetic
    tasks: int = 0  # the first so many; 0: all
    samples: int = 4  # rollouts a task
    temperature: float = 1.0
    every_iteration: bool = True


@dataclass
class AnchorLoopConfig:
    """`algo=anchorloop` and `algo=agent0`."""

    name: str = "anchorloop"
    iterations: int = 3  # T
    max_prompt_tokens: int = 1024
    temperature: float = 1.0
    top_p: float = 1.0
    curriculum: CurriculumPhase = field(default_factory=CurriculumPhase)
    pool: PoolPhase = field(default_factory=PoolPhase)
    anchor: AnchorSettings = field(default_factory=AnchorSettings)
    executor: ExecutorPhase = field(default_factory=ExecutorPhase)
    optim: LoopOptim = field(default_factory=LoopOptim)
    warmup: LoopWarmup = field(default_factory=LoopWarmup)
    eval: LoopEval = field(default_factory=LoopEval)

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole run, if every pool is large enough."""
        return self.iterations * (self.curriculum.steps + self.executor.batches * self.executor.inner_steps)

    @property
    def uses_anchor(self) -> bool:
        """Whether anything depends on the anchor's rollouts in the executor's phase."""
        return self.executor.adpo.alpha > 0 and self.executor.adpo.historical != "none"

    @property
    def uses_frontier(self) -> bool:
        """Whether anything depends on the anchor's group in the curriculum's phase."""
        return self.curriculum.reward.frontier > 0

    def max_response(self) -> int:
        """Tokens after a prompt, at most."""
        return max(self.curriculum.rollouts.max_tokens, self.executor.rollouts.max_tokens)

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value or combination that cannot work."""
        positive = {
            "iterations": self.iterations,
            "max_prompt_tokens": self.max_prompt_tokens,
            "curriculum.prompts": self.curriculum.prompts,
            "curriculum.tasks_per_prompt": self.curriculum.tasks_per_prompt,
            "pool.tasks": self.pool.tasks,
            "pool.ngram": self.pool.ngram,
            "executor.tasks_per_step": self.executor.tasks_per_step,
            "executor.inner_steps": self.executor.inner_steps,
            "executor.batches": self.executor.batches,
            "optim.update_epochs": self.optim.update_epochs,
            "warmup.batch_size": self.warmup.batch_size,
            "eval.samples": self.eval.samples,
        }
        for key, value in positive.items():
            if value <= 0:
                raise ValueError(f"{key}: {value} is not allowed; it must be above 0")
        for key, number in (
            ("curriculum.steps", self.curriculum.steps),
            ("anchor.refresh_every", self.anchor.refresh_every),
            ("warmup.steps", self.warmup.steps),
            ("optim.lr", self.optim.lr),
            ("optim.curriculum_lr", self.optim.curriculum_lr),
            ("optim.kl_coef", self.optim.kl_coef),
        ):
            if number < 0:
                raise ValueError(f"{key}: {number} is not allowed; it must be 0 or more")
        if self.executor.group < 2:
            raise ValueError(f"executor.group: {self.executor.group} is not allowed; a vote needs 2 rollouts or more")
        if self.pool.filter not in ("none", "consistency"):
            raise ValueError(f"pool.filter: {self.pool.filter!r} is not allowed; it is none or consistency")
        low, high = (*self.pool.band, 0.0, 0.0)[:2]
        if len(self.pool.band) != 2 or not 0 <= low <= high <= 1:
            raise ValueError(f"pool.band: {self.pool.band} is not allowed; it is two shares, the lower one first")
