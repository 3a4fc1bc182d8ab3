"""The three stages of the gate, on the real verifier."""

import pytest

from selfplay.algos.ancora.gate import GateResult, Stage, judge_proposal
from selfplay.algos.ancora.prompts import proposer_response
from selfplay.sandbox.dafny_lite import DafnyLite

PROVER = DafnyLite()
HEAD = "method M(x: int, y: int) returns (r: int)\n"
SEED = HEAD + "  ensures r == x + y"


def judged(spec: str, parents: tuple[str, ...] = (SEED,)) -> GateResult:
    response = proposer_response(tuple("abcdefg"), spec)
    return judge_proposal(response, parents, PROVER)


def test_a_focused_change_is_accepted() -> None:
    spec = HEAD + "  ensures r == x + y + 1"
    assert judged(spec) == GateResult(True, Stage.ACCEPTED, "", spec)


def test_format_comes_first() -> None:
    result = judge_proposal("method", (SEED,), PROVER)
    assert result == GateResult(False, Stage.FORMAT, "no_think", "")
    assert judged(SEED + "\n{ r := 0; }") == GateResult(False, Stage.FORMAT, "has_body", "")


@pytest.mark.parametrize(
    ("clauses", "stage", "reason"),
    [
        ("  ensures r == x +", Stage.STUB, "syntax"),
        ("  ensures r == q", Stage.STUB, "scope"),
        ("  ensures r == true", Stage.STUB, "type"),
        ("  ensures r == x / y", Stage.STUB, "undefined"),
        ("  requires x > 0", Stage.SEMANTICS, "no_ensures"),
        ("  ensures true", Stage.SEMANTICS, "vacuous"),
        ("  ensures x + y == y + x", Stage.SEMANTICS, "vacuous"),
        ("  requires x > 0\n  ensures x > 0", Stage.SEMANTICS, "implied_by_requires"),
        ("  requires x > x\n  ensures r == x", Stage.SEMANTICS, "unsat_requires"),
        ("  ensures r > x && r < x", Stage.SEMANTICS, "unsat_ensures"),
        ("  ensures x > 0", Stage.SEMANTICS, "result_unused"),
    ],
)
def test_rejections(clauses: str, stage: Stage, reason: str) -> None:
    result = judged(HEAD + clauses)
    assert (result.accepted, result.stage, result.reason) == (False, stage, reason)
    assert result.spec == HEAD + clauses


def test_a_renamed_parent_is_rejected_be_it_the_first_or_the_second() -> None:
    renamed = "method Total(a: int, b: int) returns (t: int)\n  ensures (t == a + b)"
    other = HEAD + "  ensures r > x"
    for parents in ((SEED,), (other, SEED)):
        assert judged(renamed, parents) == GateResult(False, Stage.SEMANTICS, "renamed_parent", renamed)
    assert judged(renamed, (other,)).accepted


@pytest.mark.parametrize(
    ("clauses", "stage", "reason"),
    [
        ("ensures r == x + 1\n  ensures true", Stage.SEMANTICS, "idle_clause"),
        ("ensures r == x + 1\n  ensures x * x >= 0", Stage.SEMANTICS, "idle_clause"),
        ("requires 0 <= x * x\n  ensures r == x + 1", Stage.SEMANTICS, "idle_clause"),
        ("requires x > 2\n  requires x > 1\n  requires x == x\n  ensures r == x + 1", Stage.SEMANTICS, "idle_clause"),
        ("ensures r == x + 1 // r := x + 1;", Stage.FORMAT, "comment"),
        ("ensures r == /* x */ x + 1", Stage.FORMAT, "comment"),
        ("ensures r == ((x) + 1)", Stage.SEMANTICS, "renamed_parent"),
    ],
)
def test_a_parent_in_disguise_earns_nothing(clauses: str, stage: Stage, reason: str) -> None:
    seed = "method M(x: int) returns (r: int)\n  ensures r == x + 1"
    spec = f"method M(x: int) returns (r: int)\n  {clauses}"
    result = judge_proposal(proposer_response(("a",) * 7, spec), (seed,), PROVER)
    assert (result.accepted, result.stage, result.reason) == (False, stage, reason)
