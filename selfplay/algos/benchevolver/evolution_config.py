"""Settings of the search. Light: the command line reads them before anything else is imported."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ValidationConfig:
    """Witnesses and repairs of one candidate."""

    repairs: int = 3  # shared by all kinds
    solutions: int = 3  # of a function's task, from its statement alone
    faithful: float = 0.5  # the best of them must pass this share of the assertions
    max_tokens: int = 8192
    temperature: float = 0.6

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value that cannot work."""
        if self.repairs < 0:
            raise ValueError(f"repairs: {self.repairs} is not allowed; it must be 0 or more")
        for key in ("solutions", "max_tokens"):
            if getattr(self, key) <= 0:
                raise ValueError(f"{key}: {getattr(self, key)} is not allowed; it must be above 0")
        if not 0.0 < self.faithful <= 1.0:
            raise ValueError(f"faithful: {self.faithful} is not allowed; it lies in (0, 1]")


@dataclass
class PanelConfig:
    """The targets' attempts. Their roles are `target` and, of further models, `target_2`, `target_3`, ..."""

    attempts: int = 5  # k, of every model
    max_tokens: int = 8192
    temperature: float = 1.0

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value that cannot work."""
        for key in ("attempts", "max_tokens"):
            if getattr(self, key) <= 0:
                raise ValueError(f"{key}: {getattr(self, key)} is not allowed; it must be above 0")


@dataclass
class AcceptanceConfig:
    """When a valid candidate becomes a task."""

    harder_than_parent: bool = False
    solvable: bool = True  # some attempt must pass: tasks for training are hard, not degenerate
    min_gain: float = 0.0  # difficulty above the seed's by more than this
    repeat_family_gain: float = 0.1  # more, where the mutation family was accepted in another lineage


@dataclass
class PlusConfig:
    """Which tasks make the difficulty-upgraded benchmark (BenchEvolver, section 4.2)."""

    min_quality: int = 3  # of 5, by the rubric
    low: float = 0.05  # pooled pass@1, both ends included
    high: float = 0.75

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value that cannot work."""
        if not 0.0 <= self.low <= self.high <= 1.0:
            raise ValueError(f"low: {self.low} is not allowed; 0 <= low <= high <= 1, and high is {self.high}")


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
