"""The gate between the Proposer and the Solver: a proposal passes three stages or is rejected (paper, section 4.2.2).

1. `format`: the response holds one think block with the seven labels and one specification without a body (`prompts`);
2. `stub`: the verifier reads the specification: it parses, its names and types resolve, its clauses are defined;
3. `semantics`: it asks for something: a postcondition is there, it speaks of the results, some input and some result
   satisfy it, the precondition does not imply it, and it is no copy of a parent or of the seed up to names.

The gate only accepts or rejects: it never scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from selfplay.algos.ancora.prompts import parse_proposal
from selfplay.sandbox.base import Prover, Verdict

RENAMED_PARENT = "renamed_parent"
PROVER_ERROR = "prover_error"
UNDECIDED = "undecided"
TOO_LONG = "too_long"  # for the prompt in which it would be asked: where there is a tokenizer, outside of this module


class Stage(StrEnum):
    """Where a proposal was rejected, or that it was not."""

    FORMAT = "format"
    STUB = "stub"
    SEMANTICS = "semantics"
    ACCEPTED = "accepted"


@dataclass(frozen=True)
class GateResult:
    """`spec` is the proposed text, empty if none could be read. `reason` is empty if accepted; it is one stable word
    (a `prompts.Rejection`, the verifier's own first word, or one of this module's) that metrics count."""

    accepted: bool
    stage: Stage
    reason: str
    spec: str


def judge_proposal(
    response: str,
    parents: Sequence[str],
    prover: Prover,
    *,
    language: str = "Dafny",
) -> GateResult:
    """Run the three stages on a Proposer's response.

    `parents` are the seed and, in a crossover, the second parent.
    """
    parsed = parse_proposal(response, language=language)
    if parsed.rejection:
        return GateResult(False, Stage.FORMAT, str(parsed.rejection), "")
    spec = parsed.text
    judgement = prover.check_spec(spec)
    if not judgement.verified:
        return GateResult(False, *_stage_and_reason(judgement.verdict, judgement.detail), spec)
    if prover.normal_form(spec) in {prover.normal_form(parent) for parent in parents}:
        return GateResult(False, Stage.SEMANTICS, RENAMED_PARENT, spec)
    return GateResult(True, Stage.ACCEPTED, "", spec)


# The verifier's words for a text that it read and found to ask for nothing; a missing postcondition is among them
# although it makes a text malformed.
_ASKS_NOTHING = frozenset(
    ("no_ensures", "unsat_requires", "unsat_ensures", "vacuous", "implied_by_requires", "result_unused", "idle_clause")
)


def _stage_and_reason(verdict: Verdict, detail: str) -> tuple[Stage, str]:
    """A prover's detail opens with one word and a colon; without one the verdict itself is the reason."""
    head, colon, _ = detail.partition(":")
    word = head.strip() if colon and head.strip().isidentifier() else str(verdict)
    if verdict is Verdict.ERROR:
        return Stage.STUB, PROVER_ERROR
    if verdict is Verdict.UNKNOWN:
        return Stage.SEMANTICS, UNDECIDED
    return (Stage.SEMANTICS if word in _ASKS_NOTHING else Stage.STUB), word
