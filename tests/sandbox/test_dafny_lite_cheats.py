"""No way around a proof counts as one, here or with the real Dafny."""

from __future__ import annotations

import shutil

import pytest
from dafny_cheats import ANSWERS, FAIR_IN_DAFNY, HONEST, MAX, SPECIFICATIONS, cheats

from selfplay.sandbox.base import Verdict
from selfplay.sandbox.dafny import Dafny
from selfplay.sandbox.dafny_lite import DafnyLite

PROVER = DafnyLite()
needs_dafny = pytest.mark.skipif(shutil.which("dafny") is None, reason="dafny is not installed")


def test_the_corpus_is_large_and_its_specification_can_be_met() -> None:
    assert len(ANSWERS) + len(SPECIFICATIONS) >= 60
    assert PROVER.verify(MAX, HONEST).verified


@pytest.mark.parametrize(("spec", "answer"), [cheat[1:] for cheat in cheats()], ids=[cheat[0] for cheat in cheats()])
def test_no_cheat_is_verified(spec: str, answer: str) -> None:
    judgement = PROVER.verify(spec, answer)
    assert judgement.verdict in (Verdict.MALFORMED, Verdict.REFUTED)
    assert judgement.detail
    assert "\n" not in judgement.detail


@needs_dafny
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_cheat_is_verified_by_the_dafny_adapter() -> None:
    """Its `verify` does not look for vacuity: a program counts only with a specification that passes `check_spec`."""
    dafny = Dafny(time_limit_s=120)
    passed = [name for name, spec, answer in cheats() if dafny.verify(spec, answer).verified]
    specs = {name: spec for name, spec, _ in cheats()}
    assert {name for name in passed if dafny.check_spec(specs[name]).verified} <= FAIR_IN_DAFNY
