"""Settings of the search."""

from __future__ import annotations

from dataclasses import dataclass, field

from selfplay.algos.benchevolver.acceptance import AcceptanceConfig
from selfplay.algos.benchevolver.measure import PanelConfig
from selfplay.algos.benchevolver.validation import ValidationConfig


@dataclass
class EvolutionConfig:
    """One run of the search."""

    steps: int = 10  # b: evolution steps of a seed, at most
    accepted: int = 2  # tasks of a seed, at most
    saturation: float = 1.0  # accuracy from which a seed is evolved
    proposer: str = "solution_centric"  # solution_centric | problem_centric (ablation: the statement first)
    memory: bool = True  # false: every step is the first (ablation)
    duplicate: float = 0.8  # MinHash similarity of two statements above which the later one is a reskin
    min_public: int = 1
    min_hidden: int = 5
    max_tokens: int = 8192
    temperature: float = 1.0
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    panel: PanelConfig = field(default_factory=PanelConfig)
    acceptance: AcceptanceConfig = field(default_factory=AcceptanceConfig)

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value that cannot work."""
        if self.proposer not in ("solution_centric", "problem_centric"):
            raise ValueError(f"proposer: {self.proposer!r} is not allowed; it is solution_centric or problem_centric")
        for key in ("steps", "accepted", "min_public", "min_hidden", "max_tokens"):
            if getattr(self, key) <= 0:
                raise ValueError(f"{key}: {getattr(self, key)} is not allowed; it must be above 0")
        if not 0.0 < self.duplicate <= 1.0:
            raise ValueError(f"duplicate: {self.duplicate} is not allowed; it lies in (0, 1]")
        if not 0.0 < self.saturation <= 1.0:
            raise ValueError(f"saturation: {self.saturation} is not allowed; it lies in (0, 1]")
