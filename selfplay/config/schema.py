"""The root of the configuration: every component's own dataclass under the name its group has on the command line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, OmegaConf

from selfplay.algos.anchorloop.config import AnchorLoopConfig
from selfplay.algos.ancora.config import AncoraConfig, RejectionConfig
from selfplay.algos.benchevolver.config import BenchEvolverConfig
from selfplay.backbones.config import BackboneConfig
from selfplay.engine.config import ClusterConfig
from selfplay.evaluation.config import EvaluateConfig
from selfplay.runs.config import LoggingConfig
from selfplay.sandbox.config import DafnyConfig, DafnyLiteConfig, JudgeConfig, PythonConfig, VerusConfig

# Groups whose members differ in their fields. A new system or sandbox adds its dataclass here; the file of the same
# name in conf/<group>/ starts from it with `defaults: [<name>_schema]`.
SCHEMAS: dict[str, dict[str, type]] = {
    "algo": {
        "ancora": AncoraConfig,
        "rft": RejectionConfig,
        "psv": RejectionConfig,
        "anchorloop": AnchorLoopConfig,
        "agent0": AnchorLoopConfig,
        "benchevolver": BenchEvolverConfig,
    },
    "sandbox": {
        "dafny": DafnyConfig,
        "dafny_lite": DafnyLiteConfig,
        "verus": VerusConfig,
        "python": PythonConfig,
        "judge": JudgeConfig,
    },
}

GROUPS = ("algo", "backbone", "sandbox", "cluster", "logging", "experiment")
RESUME_WORDS = ("never", "auto", "once")
MAX_SEED = 2**31 - 1


@dataclass
class Config:
    """One run. `algo` and `sandbox` hold the dataclass of the chosen member (see SCHEMAS)."""

    algo: Any = MISSING
    backbone: BackboneConfig = field(default_factory=BackboneConfig)
    sandbox: Any = MISSING
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    seed: int = 0
    name: str = "run"  # part of the run directory's name
    resume: str = "never"  # never: a fresh run directory | auto: the newest unfinished one of this run | its path |
    # once: as auto, and nothing to do if that run has finished
    stop_after: int = 0  # save and end (exit code 130) after so many outer iterations of this launch; 0: go to the end
    dry_run: bool = False  # print the settings, the placement and the steps, and end
    output_dir: str = "outputs"
    rows: list[str] = field(default_factory=list)  # of an experiment that is a table: the overrides of each run
    row: int = -1  # which of them; --multirun takes all

    def check(self) -> None:
        """Raise ValueError("key: reason") on a top-level value that cannot work."""
        if not 0 <= self.seed <= MAX_SEED:
            raise ValueError(f"seed: {self.seed} is not allowed; it lies in [0, {MAX_SEED}]")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", self.name):
            raise ValueError(
                f"name: {self.name!r} is not allowed; it is letters, digits, '.', '_' and '-', 64 at most, and starts"
                " with a letter or digit"
            )
        if not self.output_dir:
            raise ValueError("output_dir: '' is not allowed; it is a folder")
        if not self.resume:
            raise ValueError("resume: '' is not allowed; it is never, auto, once or the path of a run directory")
        if self.stop_after < 0:
            raise ValueError(f"stop_after: {self.stop_after} is not allowed; it is 0 (to the end) or above")


@cache
def register() -> None:
    """Give Hydra the dataclasses, so that every override is checked against them. Does its work once."""
    store = ConfigStore.instance()
    store.store(name="schema", node=Config)
    store.store(name="evaluate_schema", node=EvaluateConfig)
    for group, members in SCHEMAS.items():
        for name, node in members.items():
            structured = OmegaConf.structured(node)
            OmegaConf.set_readonly(structured, False)  # OmegaConf lets nothing override a frozen dataclass
            store.store(group=group, name=f"{name}_schema", node=structured)
