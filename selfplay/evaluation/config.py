"""Settings of an evaluation; `conf/evaluate.yaml` has the groups it is composed of."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from selfplay.algos.benchevolver.models import EndpointConfig
from selfplay.backbones.config import BackboneConfig
from selfplay.engine.config import ClusterConfig
from selfplay.sandbox.config import DafnyLiteConfig, JudgeConfig, PythonConfig, VerusConfig

WORDINGS = ("auto", "plain", "anchorloop")


@dataclass
class DataConfig:
    """Where the benchmarks are."""

    dir: str = ""  # a folder of files in the shapes that the benchmarks are published in
    hub: bool = False  # ask the hub for what the folder does not hold
    revision: dict[str, str] = field(default_factory=dict)  # by benchmark: a commit, tag or branch of the hub
    since: str = ""  # a day, as 2025-02-01: coding problems published before it are left out
    until: str = ""

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value that cannot work."""
        for key in ("since", "until"):
            if not re.fullmatch(r"(\d{4}-\d\d-\d\d)?", getattr(self, key)):
                raise ValueError(f"{key}: {getattr(self, key)!r} is not allowed; it is a day, as 2025-02-01")
        if self.dir and not Path(self.dir).expanduser().is_dir():
            raise ValueError(f"dir: {self.dir!r} is not allowed; there is no such folder")


@dataclass
class ToolConfig:
    """Python for the model: a program between tags is run and its output goes back."""

    use: bool = False
    turns: int = 4
    output_tokens: int = 512


@dataclass
class RemoteConfig(EndpointConfig):
    """A model behind an endpoint; without an address there is none."""

    base_url: str = ""

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value that cannot work."""
        if self.base_url:
            super().check()


@dataclass
class EvaluateConfig:
    """One model on some suites. A value of 0, or below 0 for the temperature, is each benchmark's own."""

    model: str = ""  # a run directory, a checkpoint of one, or a model folder; empty: the backbone
    endpoint: RemoteConfig = field(default_factory=RemoteConfig)
    suites: list[str] = field(default_factory=lambda: ["micro"])
    data: DataConfig = field(default_factory=DataConfig)
    tool: ToolConfig = field(default_factory=ToolConfig)
    wording: str = "auto"  # of mathematics: plain (a box), or anchorloop's own; auto: the one the model was trained on
    limit: int = 0  # the first so many questions of each benchmark
    samples: int = 0
    temperature: float = -1.0
    top_p: float = 1.0
    max_prompt_tokens: int = 2048
    max_tokens: int = 4096
    at_once: int = 64
    seed: int = 0
    name: str = ""  # of the folder in output_dir; empty: made of the model's
    output_dir: str = "outputs/evaluate"
    backbone: BackboneConfig = field(default_factory=BackboneConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    python: PythonConfig = field(default_factory=PythonConfig)
    judge: JudgeConfig = field(default_factory=JudgeConfig)
    dafny_lite: DafnyLiteConfig = field(default_factory=DafnyLiteConfig)
    verus: VerusConfig = field(default_factory=VerusConfig)

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value or combination that cannot work."""
        for key in ("max_prompt_tokens", "max_tokens", "at_once"):
            if getattr(self, key) <= 0:
                raise ValueError(f"{key}: {getattr(self, key)} is not allowed; it must be above 0")
        for key in ("limit", "samples"):
            if getattr(self, key) < 0:
                raise ValueError(f"{key}: {getattr(self, key)} is not allowed; it must be 0 or more")
        if not re.fullmatch(r"[A-Za-z0-9._-]*", self.name):
            raise ValueError(f"name: {self.name!r} is not allowed; it is letters, digits, '.', '_' and '-'")
        if not self.suites:
            raise ValueError("suites: [] is not allowed; it is a list of suites and benchmarks")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: {self.top_p} is not allowed; it lies in (0, 1]")
        if self.wording not in WORDINGS:
            raise ValueError(f"wording: {self.wording!r} is not allowed; it is auto, plain or anchorloop")
        if self.tool.use and self.tool.turns <= 0:
            raise ValueError(f"tool.turns: {self.tool.turns} is not allowed; it must be above 0")
        if self.model and self.remote:
            raise ValueError(f"model: {self.model!r} is not allowed with endpoint.base_url; it is one or the other")

    @property
    def remote(self) -> bool:
        """Whether an endpoint answers, and no server is started."""
        return bool(self.endpoint.base_url)
