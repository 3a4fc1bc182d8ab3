"""A candidate on its way from a mutation to an accepted task, and the reasons for which it may end before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from selfplay.benchmarks.code_task import CodeTask

REGIMES = ("small", "medium", "large", "stress")


class Reason(StrEnum):
    """Why a candidate, or a seed, is rejected. Counted in the report."""

    NO_CALL = "a call brought no answer"
    CUT_OFF = "a reply was cut off"
    NO_CODE = "no code in the mutation"
    NO_STATEMENT = "no statement"
    NO_TESTS = "too few test inputs"
    UNCHANGED = "the solution is its parent's"
    REFERENCE_FAILS = "the reference fails on a test input"
    UNSTABLE = "the reference is not deterministic"
    PARENT_SOLVES = "the parent's solution passes"
    INCONSISTENT = "witnesses disagree after all repairs"
    UNFAITHFUL = "no solution from the statement alone passes"
    NOT_HARDER = "not harder than the seed"
    NOT_HARDER_THAN_PARENT = "not harder than the parent"
    UNSOLVED = "no attempt solves it"
    FAMILY_REPEATED = "a known mutation family without enough gain"
    DUPLICATE = "a near-duplicate"
    AMBIGUOUS = "false difficulty"


@dataclass(frozen=True)
class Mutation:
    """C' with the idea behind it: the first thing that a proposer writes."""

    family: str
    idea: str
    why_parent_fails: str
    reference: str


@dataclass(frozen=True)
class Candidate:
    """A complete proposal. Expected outputs are what `mutation.reference` gives."""

    mutation: Mutation
    statement: str
    public_inputs: tuple[str, ...]
    hidden_inputs: Mapping[str, tuple[str, ...]]  # regime -> inputs

    @property
    def inputs(self) -> tuple[str, ...]:
        """The hidden inputs, regime by regime."""
        return tuple(given for regime in REGIMES for given in self.hidden_inputs.get(regime, ()))


@dataclass(frozen=True)
class Evolved:
    """An accepted task with its lineage."""

    task: CodeTask
    seed_id: str
    parent_id: str
    mutation: Mutation
    seed_accuracy: float
    accuracy: float
    by_model: Mapping[str, float]
    generation: int  # 1: evolved from the seed itself

    def to_dict(self) -> dict[str, Any]:
        """The fields of `lineage` in evolved.jsonl."""
        return {
            "seed": self.seed_id,
            "parent": self.parent_id,
            "generation": self.generation,
            "family": self.mutation.family,
            "idea": self.mutation.idea,
            "why_parent_fails": self.mutation.why_parent_fails,
            "accuracy_of_seed": self.seed_accuracy,
            "accuracy": self.accuracy,
            "accuracy_by_model": dict(self.by_model),
        }


@dataclass
class Attempt:
    """What one evolution step came to: for local memory, the manifest and the report."""

    seed_id: str
    parent_id: str
    step: int
    family: str = ""
    idea: str = ""
    reason: Reason | None = None  # None: accepted
    detail: str = ""
    repairs: list[str] = field(default_factory=list)  # their kinds, in order
    accuracy: float | None = None
    errors: list[str] = field(default_factory=list)  # of targets' attempts that failed

    @property
    def accepted(self) -> bool:
        return self.reason is None
