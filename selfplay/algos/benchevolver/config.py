"""BenchEvolver's settings, with the paper's defaults; `conf/algo/sizes/benchevolver_tiny.yaml` has those of `tiny`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import ValidationError

from selfplay.algos.benchevolver.evolution_config import EvolutionConfig, PlusConfig
from selfplay.algos.benchevolver.models import BudgetConfig, EndpointConfig

POLICY = "policy"
MIXTURES = ("seed", "evolved", "seed_evolved")
EVOLVER_ROLES = ("proposer", "brute_force", "oracle", "quality")


@dataclass
class RolesConfig:
    """Which model has which role: `policy` (the one that is trained) or the name of one of `endpoints`."""

    proposer: str = POLICY
    brute_force: str = POLICY
    oracle: str = POLICY
    quality: str = POLICY
    targets: list[str] = field(default_factory=lambda: [POLICY])  # the panel

    def by_role(self) -> dict[str, str]:
        """Every role that is asked -> its model; the panel's are target, target_2, ..."""
        panel = dict(zip(panel_roles(len(self.targets)), self.targets, strict=True))
        return {role: getattr(self, role) for role in EVOLVER_ROLES} | panel


@dataclass
class RlConfig:
    """Training on the result (appendix D of the paper)."""

    mixture: str = "seed_evolved"  # seed | evolved | seed_evolved: what the policy that goes on is trained on
    compare: list[str] = field(default_factory=list)  # further mixtures from the same start, for as many steps
    steps: int = 100  # of every mixture; 0: evolution alone
    problems: int = 64  # B
    group: int = 16  # G
    max_tokens: int = 24576
    lr: float = 1e-5  # constant
    clip: float = 0.2
    kl_coef: float = 0.0
    update_epochs: int = 1
    grad_clip: float = 1.0
    weight_decay: float = 0.0
    lora_rank: int = 32  # 0: all weights
    lora_alpha: int = 64
    drop_contaminated: bool = True  # evolved tasks that share text with an evaluation set are not trained on

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value that cannot work."""
        for key in ("problems", "group", "max_tokens", "update_epochs"):
            if getattr(self, key) <= 0:
                raise ValueError(f"{key}: {getattr(self, key)} is not allowed; it must be above 0")
        for key in ("steps", "lr", "kl_coef", "lora_rank"):
            if getattr(self, key) < 0:
                raise ValueError(f"{key}: {getattr(self, key)} is not allowed; it must be 0 or more")
        for name in (self.mixture, *self.compare):
            if name not in MIXTURES:
                key = "mixture" if name == self.mixture else "compare"
                raise ValueError(f"{key}: {name!r} is not allowed; it is {', '.join(MIXTURES[:-1])} or {MIXTURES[-1]}")
        if len({self.mixture, *self.compare}) < 1 + len(self.compare):
            raise ValueError(
                f"compare: {self.compare} is not allowed; each mixture is trained once, {self.mixture} too"
            )

    @property
    def mixtures(self) -> list[str]:
        """In the order of training: the one that goes on comes last."""
        return [*self.compare, self.mixture]


@dataclass
class EvolverWarmup:
    """Supervised steps before the first round, for backbones that know no role; 0: none."""

    steps: int = 0
    batch_size: int = 64
    lr: float = 1e-5
    n_demos: int = 20000
    slip_share: float = 0.35  # of a solution with two steps; with each further step of it, more
    seed: int = 0  # apart from the run's, so that runs share the warmed-up model
    cache: bool = True


@dataclass
class EvolverEval:
    """Held-out accuracy of the policy, before and after."""

    heldout: str = ""  # a file in LiveCodeBench's format; empty: the shipped problems
    tasks: int = 0  # the first so many; 0: all
    samples: int = 4
    max_tokens: int = 30720
    temperature: float = 1.0


@dataclass
class BenchEvolverConfig:
    """`algo=benchevolver`."""

    name: str = "benchevolver"
    seeds: str = ""  # a file in LiveCodeBench's format with `reference_solution`; empty: the shipped problems
    licence: str = "Apache-2.0"  # of the seeds; goes into the manifest
    rounds: int = 1  # the trained policy is the next round's evolver and target
    max_prompt_tokens: int = 8192
    top_p: float = 1.0
    at_once: int = 64  # calls under way
    remeasure: int = 5  # fresh attempts at accepted tasks and their seeds: what selection has flattered; 0: none
    replay: str = ""  # a run directory: its search again from its log, without any model
    roles: RolesConfig = field(default_factory=RolesConfig)
    endpoints: dict[str, dict[str, Any]] = field(default_factory=dict)  # name -> settings, see `models.EndpointConfig`
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    evolution: EvolutionConfig = field(default_factory=EvolutionConfig)
    plus: PlusConfig = field(default_factory=PlusConfig)
    rl: RlConfig = field(default_factory=RlConfig)
    warmup: EvolverWarmup = field(default_factory=EvolverWarmup)
    eval: EvolverEval = field(default_factory=EvolverEval)

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole run."""
        return 0 if self.replay else self.rounds * self.rl.steps * len(self.rl.mixtures)

    @property
    def needs_policy(self) -> bool:
        """Whether the engine is started: a search with endpoints alone, or a replay, does without."""
        return not self.replay and (self.rl.steps > 0 or POLICY in self.roles.by_role().values())

    def endpoint_configs(self) -> dict[str, EndpointConfig]:
        """The endpoints by name. Raises ValueError("key: reason") on a setting that is unknown or cannot work."""
        known, found = {item.name for item in fields(EndpointConfig)}, {}
        for name, settings in self.endpoints.items():
            for key in settings:
                if key not in known:
                    raise ValueError(
                        f"endpoints.{name}.{key}: there is no such setting; it is {', '.join(sorted(known))}"
                    )
            try:
                typed = OmegaConf.merge(OmegaConf.structured(EndpointConfig), settings)
                found[name] = EndpointConfig(**dict(typed.items()))
                found[name].check()
            except ValidationError as error:
                raise ValueError(f"endpoints.{name}.{error.full_key}: {str(error).splitlines()[0]}") from error
            except ValueError as error:
                raise ValueError(f"endpoints.{name}.{error}") from error
        return found

    def max_response(self) -> int:
        """Tokens after a prompt, at most."""
        evolution = self.evolution
        asked = (evolution.max_tokens, evolution.validation.max_tokens, evolution.panel.max_tokens)
        return max(self.rl.max_tokens, self.eval.max_tokens, *asked)

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value or combination that cannot work."""
        for key in ("rounds", "max_prompt_tokens", "at_once"):
            if getattr(self, key) <= 0:
                raise ValueError(f"{key}: {getattr(self, key)} is not allowed; it must be above 0")
        if self.remeasure < 0:
            raise ValueError(f"remeasure: {self.remeasure} is not allowed; it must be 0 or more")
        if not self.roles.targets:
            raise ValueError("roles.targets: [] is not allowed; difficulty is what the targets make of a task")
        for role, name in self.roles.by_role().items():
            if name != POLICY and name not in self.endpoints:
                key = "targets" if role.startswith("target") else role
                known = ", ".join([POLICY, *sorted(self.endpoints)])
                raise ValueError(f"roles.{key}: {name!r} is not allowed; it is one of {known}")
        if POLICY in self.endpoints:
            raise ValueError(f"endpoints: {POLICY!r} is not allowed; it names the model that is trained")
        self.endpoint_configs()
        if self.rounds > 1 and not self.rl.steps:
            raise ValueError("rounds: more than 1 is not allowed with rl.steps=0; without training they are all alike")


def panel_roles(count: int) -> list[str]:
    """The roles of `count` targets."""
    return ["target" if i == 0 else f"target_{i + 1}" for i in range(count)]
