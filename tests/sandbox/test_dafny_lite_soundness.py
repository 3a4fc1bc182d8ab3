"""Random programs: whatever `DafnyLite` verifies, the real Dafny verifies, and no run of it goes wrong."""

from __future__ import annotations

import itertools
import random
import shutil
from collections import Counter

import pytest
from dafny_batch import outcomes
from dafny_interpreter import Run, WrongError
from dafny_programs import Expressions, Program, generate
from dafny_regressions import REGRESSIONS

from selfplay.sandbox.base import Judgement, Verdict
from selfplay.sandbox.dafny import Dafny
from selfplay.sandbox.dafny_lite import DafnyLite, MalformedError, Reason
from selfplay.sandbox.dafny_lite.lexer import tokenise
from selfplay.sandbox.dafny_lite.parser import parse_block, parse_header
from selfplay.sandbox.dafny_lite.printer import print_expr
from selfplay.sandbox.dafny_lite.resolve import resolve_body, resolve_header

PROVER = DafnyLite()
needs_dafny = pytest.mark.skipif(shutil.which("dafny") is None, reason="dafny is not installed")
DOMAINS: dict[str, list[int | bool]] = {"int": [*range(-4, 5)], "nat": [*range(6)], "bool": [False, True]}


def goes_wrong(program: Program, seed: int) -> str | None:
    """The first run, over small inputs, that breaks an obligation."""
    header, body = parse_header(tokenise(program.spec)), parse_block(tokenise(program.answer))
    resolve_header(header)
    resolve_body(header, body)
    rng = random.Random(seed)
    for values in itertools.islice(itertools.product(*(DOMAINS[str(name.type)] for name in header.ins)), 0, 400, 5):
        inputs = {name.name: value for name, value in zip(header.ins, values, strict=True)}
        try:
            Run(header, rng).call(body, inputs)
        except WrongError as error:
            return f"{inputs}: {error}"
    return None


def is_about_the_program(judgement: Judgement) -> bool:
    """Whether Dafny was asked the same question: not so for vacuous specifications and what is outside the subset."""
    if judgement.verdict is Verdict.REFUTED:
        return judgement.detail.startswith((Reason.OBLIGATION, Reason.UNDEFINED))
    return judgement.verdict in (Verdict.VERIFIED, Verdict.UNKNOWN)


def compare_with_dafny(programs: list[Program]) -> tuple[list[Program], Counter[tuple[str, str]]]:
    """The programs that only we verify, and how often each pair of verdicts (ours, Dafny's) was seen."""
    judged = [(program, PROVER.verify(program.spec, program.answer)) for program in programs]
    asked = [(program, judgement) for program, judgement in judged if is_about_the_program(judgement)]
    theirs = outcomes(Dafny(time_limit_s=120), [program for program, _ in asked])
    counts = Counter((judgement.verdict.value, outcome) for (_, judgement), outcome in zip(asked, theirs, strict=True))
    pairs = zip(asked, theirs, strict=True)
    return [program for (program, ours), outcome in pairs if ours.verified and outcome != "verified"], counts


def assert_agreement(programs: list[Program], at_least: int) -> None:
    unsound, counts = compare_with_dafny(programs)
    verified, both = counts["verified", "verified"], counts.total()
    only_dafny = sum(count for (ours, theirs), count in counts.items() if theirs == "verified" and ours != "verified")
    print(f"{both} programs judged by both: {dict(counts)}")
    print(f"of {verified + only_dafny} that Dafny verifies we verify {verified}")
    assert both >= at_least
    assert verified >= at_least // 3
    assert counts["refuted", "failed"] >= at_least // 10
    assert not unsound, unsound


def test_no_run_of_a_verified_program_goes_wrong() -> None:
    verified = wrong = 0
    for seed in range(300):
        program = generate(seed)
        judgement = PROVER.verify(program.spec, program.answer)
        if judgement.verified:
            verified += 1
            assert goes_wrong(program, seed) is None, program
        elif judgement.detail.startswith(Reason.OBLIGATION):
            wrong += goes_wrong(program, seed) is not None
    assert verified > 100
    assert wrong > 50  # the runs do notice what is wrong


@pytest.mark.parametrize(("program", "verdict"), REGRESSIONS)
def test_regressions(program: Program, verdict: Verdict) -> None:
    assert PROVER.verify(program.spec, program.answer).verdict is verdict


@needs_dafny
def test_100_programs_against_dafny() -> None:
    assert_agreement([generate(seed) for seed in range(140)], at_least=100)


@needs_dafny
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_2000_programs_against_dafny() -> None:
    assert_agreement([generate(seed) for seed in range(10_000, 12_800)], at_least=2_000)


def readings(seeds: range) -> list[Program]:
    """Programs that say how we read an expression written with few parentheses."""
    programs = []
    spec = "method F(x: int, y: int, p: bool, q: bool) returns (r: int)\n  ensures r == 1"
    for seed in seeds:
        rng = random.Random(seed)
        text = Expressions(rng, ["x", "y"], ["p", "q"], 0.1).boolean(rng.randint(2, 3))
        text = text.replace("/ y", "/ 4").replace("% y", "% 4").replace("/ x", "/ -4").replace("% x", "% 6")
        try:
            header = parse_header(tokenise(f"method F() returns (r: int) ensures {text}"))
        except MalformedError:
            continue
        grouped = print_expr(header.ensures[0])
        program = Program(spec, f"{{ assert ({text}) == ({grouped}); r := 1; }}")
        if PROVER.verify(program.spec, program.answer).verified:
            programs.append(program)
    return programs


@needs_dafny
def test_dafny_reads_expressions_as_we_do() -> None:
    programs = readings(range(60))
    assert len(programs) >= 20
    assert outcomes(Dafny(time_limit_s=120), programs) == ["verified"] * len(programs)


@needs_dafny
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_dafny_reads_many_expressions_as_we_do() -> None:
    programs = readings(range(1000, 1800))
    assert len(programs) >= 250
    assert outcomes(Dafny(time_limit_s=120), programs) == ["verified"] * len(programs)
