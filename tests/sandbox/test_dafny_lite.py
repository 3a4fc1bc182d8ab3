"""What `DafnyLite` accepts and refuses, by hand-worked cases."""

from __future__ import annotations

import threading

import pytest
from dafny_loops import LOOPS

from selfplay.sandbox.base import Verdict
from selfplay.sandbox.dafny_lite import DafnyLite, Reason

PROVER = DafnyLite()
DIVIDE = "method F(x: int, y: int) returns (r: int)\n  requires y != 0\n  ensures r == x / y"
ZERO = "method F(n: nat, m: int) returns (r: int, q: nat)\n  ensures r == 0\n  ensures q == 1"


def verdict(spec: str, answer: str) -> Verdict:
    return PROVER.verify(spec, answer).verdict


def holds(claim: str) -> bool:
    """Whether `claim` over int x, y and bool p, q is a theorem."""
    spec = "method F(x: int, y: int, p: bool, q: bool) returns (r: int)\n  ensures r == 1"
    return PROVER.verify(spec, f"{{ assert {claim}; r := 1; }}").verified


@pytest.mark.parametrize("step", ["1", "3"])
def test_the_hand_written_loops_verify(step: str) -> None:
    for spec, answer in LOOPS:
        judgement = PROVER.verify(spec.replace("$", step), answer.replace("$", step))
        assert judgement.verified, (judgement, spec, answer)


def test_a_counterexample_breaks_the_obligation() -> None:
    judgement = PROVER.verify("method F(x: int) returns (r: int)\n  ensures r >= 0", "{\n  r := x;\n}")
    assert judgement.verdict is Verdict.REFUTED
    assert int(judgement.counterexample["x"]) < 0
    assert judgement.detail == "obligation: answer 3:1: a postcondition may not hold on return here"


@pytest.mark.parametrize(
    "claim",
    [
        "(-7) / 2 == -4 && (-7) % 2 == 1",
        "7 / (-2) == -3 && 7 % (-2) == 1",
        "(-7) / (-2) == 4 && (-7) % (-2) == 1",
        "y != 0 ==> 0 <= x % y && x == y * (x / y) + x % y",
        "-7 / 2 == (-7) / 2",
        "x - y - 1 == x - (y + 1)",
        "x - -1 == x + 1",
        "(p ==> q ==> p) == (p ==> (q ==> p))",
        "(p <== q) == (q ==> p)",
        "p <==> p && p",
        "!p == q <==> (!p) == q",
        "0 <= x < y <==> 0 <= x && x < y",
        "(if x > 0 then x else -x) >= 0",
        "(x == if p then 1 else 2) ==> x > 0",
        "y == 0 || x / y == x / y",
        "(x / y == 1 <== y != 0) || true",
    ],
)
def test_claims_that_hold(claim: str) -> None:
    assert holds(claim)


@pytest.mark.parametrize(
    "claim",
    [
        "x / y == x / y",
        "x / y == x / y || y == 0",
        "(y != 0 <== x / y == 1) || true",
        "p ==> q",
        "(-7) / 2 == -3",
        "(-7) % 2 == -1",
        "(if x / y > 0 then true else true)",
        "0 < x / y < 3 || true",
    ],
)
def test_claims_that_do_not_hold(claim: str) -> None:
    assert not holds(claim)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("{ r := z; }", Reason.SCOPE),
        ("{ x := 1; }", Reason.SCOPE),
        ("{ var r := 1; }", Reason.SCOPE),
        ("{ var t := 1; var t := 2; }", Reason.SCOPE),
        ("{ if x > 0 { var t := 1; } r := t; }", Reason.SCOPE),
        ("{ var t := t; }", Reason.SCOPE),
        ("{ r, r := 1, 1; }", Reason.SCOPE),
        ("{ r := true; }", Reason.TYPE),
        ("{ r := x == y; }", Reason.TYPE),
        ("{ r := x + (x < y); }", Reason.TYPE),
        ("{ return 1, 2; }", Reason.TYPE),
        ("{ var a, b := 1; }", Reason.TYPE),
        ("{ var t; }", Reason.TYPE),
        ("{ if x { } }", Reason.TYPE),
        ("{ assert x == y == (x == y); }", Reason.TYPE),
        ("{ r := x < y > x; }", Reason.SYNTAX),
        ("{ assert x > 0 && x > 1 || x > 2; }", Reason.SYNTAX),
        ("{ assert x > 0 ==> x > 1 <== x > 2; }", Reason.SYNTAX),
        ("{ if x > 0 r := 1; }", Reason.SYNTAX),
        ("{ r := 1 }", Reason.SYNTAX),
        ("{ r := a'; }", Reason.LEXICAL),
        ("{ r := 1x; }", Reason.LEXICAL),
        ("{ r := _x; }", Reason.LEXICAL),
        ("{ r := x.y; }", Reason.LEXICAL),
        ("{ r := 0x10; }", Reason.LEXICAL),
        ("{ while true { } }", Reason.TERMINATION),
        ("{ while !(x > y) { } }", Reason.TERMINATION),
    ],
)
def test_malformed_answers_say_why_and_where(answer: str, reason: Reason) -> None:
    judgement = PROVER.verify(DIVIDE, answer)
    assert judgement.verdict is Verdict.MALFORMED
    assert judgement.detail.startswith(f"{reason}: answer 1:")
    assert "\n" not in judgement.detail


@pytest.mark.parametrize(
    "body",
    [
        "{ var m := m + 1; assert m != n || true; } r, q := 0, 1;",  # shadows a parameter, from its own value
        "var m := true; if m { r := 0; } else { r := 0; } q := 1;",
        "q := 1; var r1, q1 := q, r; r, q := r1 - 1, q1 + 1 - q1; ",
        "q := 1; { var q := 5; } r := 0;",
        "var i := n; while i > 0 { i := i - 1; } r := i; q := 1;",
        "q := 1; r := 0; return; assert false;",
        "r := 7; while r > 0 { r := r - 1; if r == 3 { return 0, 1; } } r := 0; q := 1;",
        "var a, b := 0, m; while a < b { a := a + 1; } r := 0; q := 1;",
        "var a, b := 0, m; while b > a && true { a := a + 1; } r := 0; q := 1;",
        "var go := true; var a := 0; while go && a <= m { a := a + 1; } r := 0; q := 1;",
        "var a := 0; while a != n invariant a <= n { a := a + 1; } r := 0; q := 1;",
    ],
)
def test_right_bodies(body: str) -> None:
    assert PROVER.verify(ZERO, f"{{ {body} }}").verified


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("r := 0; q := m;", "`q` is a nat"),
        ("r := 0; q := 0 - 1;", "`q` is a nat"),
        ("return 0, -1;", "`q` is a nat"),
        ("var t: nat := n - 1; r, q := 0, 1;", "`t` is a nat"),
        ("r, q := 0, 1; var i := n; i := -3;", "`i` is a nat"),
        ("r, q := 0, 1; var i := n; i := i - 1;", "make a nat negative"),
        ("var t: int; r, q := t, 1;", "postcondition"),
        ("q := 1;", "postcondition"),
        ("r, q := 0, 1; if m > 0 { return 5, 1; }", "postcondition"),
        ("r, q := 0, 1; while q < 5 { q := q + 1; }", "postcondition"),
        ("var a := 0; while a != m { a := a + 1; } r, q := 0, 1;", "terminate"),
        ("var a := 0; while 0 <= a < m { a := a + 1; } r, q := 0, 1;", "terminate"),
        ("var a := 0; while a < m decreases m { a := a + 1; } r, q := 0, 1;", "terminate"),
        (
            "var a := 0; while a < m decreases if m == 0 then 10 / m else m - a { a := a + 1; } r, q := 0, 1;",
            "divide by zero",
        ),
        ("var a := 0; while a < m invariant 10 / m > a { a := a + 1; } r, q := 0, 1;", "entry"),
        ("r, q := 0, 1; while r < n invariant r == 0 { r := r + 1; }", "maintained"),
    ],
)
def test_wrong_bodies(body: str, message: str) -> None:
    judgement = PROVER.verify(ZERO, f"{{ {body} }}")
    assert judgement.verdict is Verdict.REFUTED
    assert message in judgement.detail
    assert set(judgement.counterexample) == {"n", "m"}


@pytest.mark.parametrize(
    ("clauses", "reason"),
    [
        ("", Reason.NO_ENSURES),
        ("ensures true", Reason.VACUOUS),
        ("ensures r > 0 || r <= 0", Reason.VACUOUS),
        ("requires x < x ensures r == x", Reason.UNSAT_REQUIRES),
        ("requires x > 2 ensures x > 1", Reason.IMPLIED_BY_REQUIRES),
        ("requires x > 2 ensures r > 1 || x > 1", Reason.IMPLIED_BY_REQUIRES),
        ("ensures x > 1", Reason.RESULT_UNUSED),
        ("ensures r - r == x", Reason.RESULT_UNUSED),
        ("ensures r == r + 1", Reason.UNSAT_ENSURES),
        ("ensures r == 1 / x", Reason.UNDEFINED),
        ("requires x / x == 1 ensures r == 1", Reason.UNDEFINED),
        ("ensures r == y", Reason.SCOPE),
        ("ensures r", Reason.TYPE),
        ("ensures r == x { }", Reason.SYNTAX),
        ("ensures r == x; ", Reason.SYNTAX),
    ],
)
def test_specifications_not_worth_proving(clauses: str, reason: Reason) -> None:
    spec = f"method F(x: int) returns (r: int) {clauses}"
    judgement = PROVER.check_spec(spec)
    assert judgement.verdict in (Verdict.MALFORMED, Verdict.REFUTED)
    assert judgement.detail.startswith(f"{reason}: ")
    assert not PROVER.verify(spec, "{ r := 1; }").verified


@pytest.mark.parametrize(
    "clauses",
    [
        "ensures r == x",
        "ensures x > 1 ==> r == x",
        "requires x != 0 ensures r == 1 / x",
        "ensures x != 0 ==> r == 1 / x",
        "ensures x != 0 ensures r == 1 / x",  # the second clause is read under the first
        "/* a /* nested */ comment */ ensures r > x // of one line",
        "ensures (x > 0 ==> r < r) && (x <= 0 ==> r == x)",  # nothing satisfies it for some inputs: not for us to say
    ],
)
def test_specifications_worth_proving(clauses: str) -> None:
    assert PROVER.check_spec(f"method F(x: int) returns (r: int)\r\n  {clauses}").verified


def test_each_result_has_to_matter() -> None:
    spec = "method F(x: int) returns (r: int, s: bool)\n  ensures r == x && (s || !s)"
    assert PROVER.check_spec(spec).detail == "result_unused: the postcondition does not depend on the result `s`"


def test_an_unsatisfiable_postcondition_proves_nothing() -> None:
    """`r < r` for x > 0 must not become a fact anywhere."""
    spec = "method F(x: int) returns (r: int)\n  ensures x > 0 ==> r < r\n  ensures r == 10 / (if x > 0 then 1 else 2)"
    assert verdict(spec, "{ r := 5; if x > 0 { r := 10; } }") is Verdict.REFUTED


def test_a_small_limit_gives_unknown_and_repeats() -> None:
    spec = "method F(x: int, y: int, z: int) returns (r: int)\n  ensures r == 1"
    answer = "{ assert x > 1 && y > 1 && z > 1 ==> x * x * x + y * y * y != z * z * z; r := 1; }"
    first = DafnyLite(rlimit=20_000).verify(spec, answer)
    assert first.verdict is Verdict.UNKNOWN
    assert first.detail.startswith("undecided: answer 1:3: ")
    assert all(DafnyLite(rlimit=20_000).verify(spec, answer) == first for _ in range(3))


def test_threads_agree_with_one_thread() -> None:
    questions = [(spec.replace("$", "2"), answer.replace("$", "2")) for spec, answer in LOOPS[:6]]
    questions += [(spec, answer.replace("+ 1", "+ 2")) for spec, answer in questions]
    alone = [PROVER.verify(*question) for question in questions]
    shared = DafnyLite()
    found: list[list[object]] = [[] for _ in range(4)]

    def work(results: list[object]) -> None:
        results.extend(shared.verify(*question) for question in questions)

    threads = [threading.Thread(target=work, args=(results,)) for results in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results == alone for results in found)


@pytest.mark.parametrize(
    "answer",
    [
        "{ r := " + "(" * 49 + "1" + ")" * 49 + "; }",
        "{ " + "{ " * 48 + "r := 1;" + " }" * 48 + " }",
        "{ r := 1" + " + 1 - 1" * 35 + "; }",
        "{ r := 0; " + "r := r + x; r := r - x; " * 150 + "r := 1; }",
        "{ r := x; " + "r := r + r; " * 100 + "r := 1; }",  # 2**100 * x
        "{ " + "if x > y { r := r + 1; } else { r := r * 2; } " * 60 + "r := 1; }",  # 2**60 paths
    ],
)
def test_large_programs_within_the_limits(answer: str) -> None:
    spec = "method F(x: int, y: int) returns (r: int)\n  ensures r == 1"
    assert PROVER.verify(spec, answer).verified


@pytest.mark.parametrize(
    "answer",
    [
        "{ r := x; " + "r := r * r; " * 40 + "r := 1; }",  # x to the power 2**40
        "{ r := 99; " + "r := r * r; " * 40 + "r := 1; }",
        "{ r := x; while r > 0 invariant " + " * ".join("r" * 13) + " >= 0 { r := 0; } }",
        "{ r := " + "9" * 31 + "; }",
        "{ r := " + "(" * 51 + "1" + ")" * 51 + "; }",
        "{ if x > 0 { } " + "else if x > 1 { } " * 90 + "}",
    ],
)
def test_programs_over_the_limits(answer: str) -> None:
    judgement = PROVER.verify("method F(x: int, y: int) returns (r: int)\n  ensures r == 1", answer)
    assert judgement.verdict is Verdict.MALFORMED
    assert judgement.detail.startswith(f"{Reason.LIMIT}: answer ")


def test_a_specification_over_the_limits() -> None:
    judgement = PROVER.check_spec("method F(x: int) returns (r: int)\n  ensures r == " + " * ".join("x" * 13))
    assert judgement.verdict is Verdict.MALFORMED
    assert judgement.detail == "limit: spec 2:16: a product of degree above 12"


def test_nested_chains_are_typed_in_linear_time() -> None:
    claim = "true"
    for _ in range(40):
        claim = f"({claim}) == true == true"
    assert holds(claim)
