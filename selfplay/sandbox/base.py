"""The one interface over everything that judges model-written text.

A *specification* is a method header with its clauses and no body; an *answer* is a body, from its opening to its
closing brace. The program that is judged is the specification followed by the answer: the specification is a locked
prefix, so no answer can change what it has to prove.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class Verdict(StrEnum):
    """What a prover says of a program."""

    VERIFIED = "verified"
    REFUTED = "refuted"  # a proof obligation does not hold; a counterexample may be given
    UNKNOWN = "unknown"  # the resource limit ran out, or the logic is outside what the solver decides
    MALFORMED = "malformed"  # does not parse, does not type-check, or uses something forbidden
    ERROR = "error"  # the prover itself failed; says nothing about the program and is never counted as refuted


@dataclass(frozen=True)
class Judgement:
    """A verdict, one line of detail for people, and the values that break a refuted obligation."""

    verdict: Verdict
    detail: str = ""
    counterexample: Mapping[str, str] = field(default_factory=dict)

    @property
    def verified(self) -> bool:
        return self.verdict is Verdict.VERIFIED


def unfinished(tool: str, works: bool) -> Judgement:
    """Of a text on which a tool died or stalled, twice.

    UNKNOWN where the tool `works` on another text: then it is this one's doing, and a model must not be able to end a
    run by what it writes. ERROR where it does not work at all.
    """
    if works:
        return Judgement(Verdict.UNKNOWN, f"undecided: {tool} did not finish on it, twice")
    return Judgement(Verdict.ERROR, f"{tool} did not finish, twice")


class Prover(Protocol):
    """A verifier of specifications and of answers. Implementations are thread-safe and deterministic."""

    name: str

    def check_spec(self, spec: str) -> Judgement:
        """Is this a well-formed, non-vacuous specification? VERIFIED, or the reason why not."""
        ...

    def normal_form(self, spec: str) -> str:
        """A text that is equal for specifications that differ in names and layout only; `spec` passes `check_spec`."""
        ...

    def verify(self, spec: str, answer: str) -> Judgement:
        """Does `spec` followed by `answer` verify strictly, with no way around the proof?"""
        ...
