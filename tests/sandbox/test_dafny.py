"""The adapter of the real Dafny: its traps, each of which exits 0 or looks like a proof."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from selfplay.sandbox.base import Verdict
from selfplay.sandbox.dafny import Dafny, DafnyRun, judge

needs_dafny = pytest.mark.skipif(shutil.which("dafny") is None, reason="dafny is not installed")
SPEC = "method F(x: int) returns (r: int)\n  ensures r > x"
SUMMARY = "\nDafny program verifier finished with 1 verified, 0 errors\n"


TASK = "Verifying Impl$$_module.__default.F ...\n  [1 proof obligation]  verified\n"


def run_of(outcome: str, code: int = 0) -> DafnyRun:
    return DafnyRun(code, SUMMARY, {"Impl$$_module.__default.F": outcome})


def script(folder: Path, body: str) -> Dafny:
    """A `dafny` that does `body`."""
    file = folder / "dafny"
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return Dafny(str(file), time_limit_s=1.0)


def test_verified_only_with_one_body_that_is_verified() -> None:
    assert judge(run_of("verified"), 1).verified
    assert judge(run_of("out of resource"), 1).verdict is Verdict.UNKNOWN
    assert judge(run_of("timed out", 4), 1).verdict is Verdict.UNKNOWN
    assert judge(run_of("error", 4), 1).verdict is Verdict.REFUTED
    assert judge(DafnyRun(0, SUMMARY.replace("1 v", "0 v"), {}), 1).verdict is Verdict.MALFORMED
    two = {"Impl$$_module.__default.F": "verified", "Impl$$_module.__default.G": "verified"}
    assert judge(DafnyRun(0, SUMMARY, two), 1).verdict is Verdict.MALFORMED
    assert judge(DafnyRun(2, "p.dfy(3,4): Error: semi expected", {}), 1).detail == "3:4: Error: semi expected"


@pytest.mark.parametrize("body", ["sleep 60", "exit 134", "echo nothing", "kill -9 $$"])
def test_a_process_that_fails_is_an_error_never_a_refutation(tmp_path: Path, body: str) -> None:
    dafny = script(tmp_path, f"echo run >> {tmp_path}/runs\n{body}")
    assert dafny.verify(SPEC, "{ r := x + 1; }").verdict is Verdict.ERROR
    assert (tmp_path / "runs").read_text() == "run\n" * 4  # tried twice, and so is a program that has to verify


def test_a_text_that_dafny_dies_of_is_undecided(tmp_path: Path) -> None:
    """A model could end the run with it if it counted as the prover's failure."""
    (tmp_path / "says").write_text(f"{TASK}\n{SUMMARY}\n")
    dafny = script(tmp_path, f'grep -q "x + 1" program.dfy && kill -9 $$\ncat {tmp_path}/says')
    assert dafny.verify(SPEC, "{ r := x + 1; }").verdict is Verdict.UNKNOWN
    assert dafny.verify(SPEC, "{ r := x + 2; }").verified


@needs_dafny
def test_a_text_that_a_server_dies_of_goes_to_a_process() -> None:
    deep = "{ r := " + "(" * 5000 + "x" + ")" * 5000 + " + 1; }"
    assert Dafny(servers=1).verify(SPEC, deep).verified


SUM_SPEC = """method Sum(s: set<int>) returns (n: int)
  ensures n == |set x | x in s && x > 7|"""
SUM_BODY = """{
  n := 0;
  var todo, seen := s, {};
  while todo != {}
    decreases todo
    invariant todo + seen == s && todo !! seen
    invariant n == |set x | x in seen && x > 7|
  {
    var e: int :| e in todo;
    var more := seen + {e};
    assert (set x | x in more && x > 7) == (set x | x in seen && x > 7) + if e > 7 then {e} else {};
    if e > 7 { n := n + 1; }
    todo, seen := todo - {e}, more;
  }
}"""


@needs_dafny
def test_a_server_proves_what_a_process_proves() -> None:
    """With the server's cache of verdicts on, which is its default, Z3 does not find this proof."""
    assert Dafny(servers=0).verify(SUM_SPEC, SUM_BODY).verified
    assert Dafny(servers=1).verify(SUM_SPEC, SUM_BODY).verified


@needs_dafny
def test_a_server_keeps_no_verdict() -> None:
    dafny = Dafny(servers=1)
    runs = [dafny.run(f"{SPEC}\n{{ r := x + 1; }}") for _ in range(2)]
    assert [run is not None and judge(run, 1).verified for run in runs] == [True, True]
    assert not any("cached" in run.output for run in runs if run)


def test_a_stalled_process_takes_its_children_along(tmp_path: Path) -> None:
    dafny = script(tmp_path, f"sleep 300 &\necho $! >> {tmp_path}/children\nwait")
    assert dafny.verify(SPEC, "{ r := x + 1; }").verdict is Verdict.ERROR
    for child in (tmp_path / "children").read_text().split():
        state = Path(f"/proc/{child}/stat")
        assert not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_a_missing_executable_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="no-such-dafny"):
        Dafny("no-such-dafny")


@pytest.mark.parametrize(
    "answer",
    [
        "{ assume false; }",
        "{ r :| assume r > x; }",
        "{ while true decreases  * { } }",
        "{ assert {:axiom} false; }",
        "{ r := x; } method G() { }",
        "{ r := x; }}{",
        "{ r := x; /* }",
        '{ var s := "//"; assume false; }',
        "{\n#if NEVER\n}",
        "{ r := x;\f }",
        "ensures true { }",
    ],
)
def test_forbidden_texts_never_reach_dafny(tmp_path: Path, answer: str) -> None:
    dafny = script(tmp_path, f"touch {tmp_path}/ran")
    assert dafny.verify(SPEC, answer).verdict is Verdict.MALFORMED
    assert "ran" not in os.listdir(tmp_path)


@needs_dafny
def test_the_real_dafny() -> None:
    dafny = Dafny(time_limit_s=120)
    assert dafny.version.startswith("2.")
    assert dafny.verify(SPEC, "{ r := x + 1; // } \n}").verified
    assert dafny.verify(SPEC.replace("\n", " // x \u2265 0 \u00e9\r\n"), "{ // }\r\n r := x + 1; }").verified
    refuted = dafny.verify(SPEC, "{ r := x; }")
    assert refuted.verdict is Verdict.REFUTED
    assert "postcondition" in refuted.detail
    assert dafny.verify(SPEC, "{ r := y; }").verdict is Verdict.MALFORMED
    assert dafny.verify(SPEC, "{ r := x + 1; while true decreases 0 }").verdict is Verdict.MALFORMED


@needs_dafny
@pytest.mark.parametrize(
    ("clauses", "reason"),
    [
        ("requires x > 0 ensures r == 10 / x", ""),
        ("requires false ensures r == 1", "unsat_requires: "),
        ("ensures r == r", "vacuous: "),
        ("ensures r == 10 / x", "undefined: "),
        ("", "no_ensures: "),
    ],
)
def test_the_real_dafny_on_specifications(clauses: str, reason: str) -> None:
    judgement = Dafny(time_limit_s=120).check_spec(f"method F(x: int) returns (r: int) {clauses}")
    assert judgement.detail.startswith(reason)
    assert judgement.verified == (reason == "")
