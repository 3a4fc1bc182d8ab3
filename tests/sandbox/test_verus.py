"""The Verus adapter: every branch of its judge on outputs in the documented formats, and its text rules.

No Verus binary is here: a shell script in its place prints what `verus_outputs` holds.
"""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import verus_outputs as out
from verus_cheats import ANSWERS, HONEST, MAX, SPECIFICATIONS, F, cheats

from selfplay.sandbox.base import Verdict
from selfplay.sandbox.verus import Verus, functions_to_verify, program_of

DATE = "0.2025.08.25.63ab0cb"


def fake(folder: Path, stdout: str, stderr: str = "", code: int = 0, body: str = "", version: str = DATE) -> Verus:
    """A `verus` that keeps each program and prints what it is told."""
    (folder / "out").write_text(stdout)
    (folder / "err").write_text(stderr)
    file = folder / "verus"
    file.write_text(
        f"#!/bin/sh\n[ \"$1\" = --version ] && echo 'Verus' && echo '  Version: {version}' && exit 0\n"
        f'echo "$@" >> {folder}/options; cat "$1" >> {folder}/programs\n{body}\n'
        f"cat {folder}/out; cat {folder}/err >&2; exit {code}\n"
    )
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return Verus(str(file), time_limit_s=2.0)


@pytest.mark.parametrize(
    ("stdout", "stderr", "code", "verdict", "detail"),
    [
        (out.results(2), "", 0, Verdict.VERIFIED, ""),
        (out.results(2), out.WARNING, 0, Verdict.VERIFIED, ""),
        (out.results(0), "", 0, Verdict.MALFORMED, "0 functions were verified, not 1"),
        (out.results(1, 1), f"{out.POSTCONDITION}\n{out.ABORTING}", 1, Verdict.REFUTED, "postcondition not satisfied"),
        (out.results(1, 1), f"{out.RLIMIT}\n{out.ABORTING}", 1, Verdict.UNKNOWN, "undecided"),
        (out.results(1, 2), f"{out.RLIMIT}\n{out.POSTCONDITION}", 1, Verdict.REFUTED, "Resource limit"),
        (out.results(2, 0), f"{out.BORROW}\n{out.ABORTING}", 1, Verdict.MALFORMED, "cannot borrow"),
        (out.results(2, 0, success=False), "", 0, Verdict.MALFORMED, "no message"),
        (out.results(2), out.SYNTAX, 0, Verdict.MALFORMED, "expected one of"),
        (out.VIR_ERROR, out.NO_CHEATING, 1, Verdict.MALFORMED, "not allowed"),
        (out.VIR_ERROR, out.SYNTAX, 1, Verdict.MALFORMED, "expected one of"),
        ("", "thread 'rustc' panicked", 101, Verdict.ERROR, "twice"),
        ("", out.SYNTAX, 1, Verdict.ERROR, "twice"),
        ("{}", "", 0, Verdict.ERROR, "twice"),
        ('{"verification-results": 3}', "", 0, Verdict.ERROR, "twice"),
        (out.results(2)[:-9], "", 0, Verdict.ERROR, "twice"),
    ],
)
def test_every_branch_of_the_judge(
    tmp_path: Path, stdout: str, stderr: str, code: int, verdict: Verdict, detail: str
) -> None:
    judgement = fake(tmp_path, stdout, stderr, code).verify(MAX, HONEST)
    assert judgement.verdict is verdict
    assert detail in judgement.detail


def test_a_stalled_or_killed_process_is_tried_twice_and_is_no_refutation(tmp_path: Path) -> None:
    for name, body in (("stall", "sleep 60 &\nwait"), ("kill", "kill -9 $$")):
        folder = tmp_path / name
        folder.mkdir()
        verus = fake(folder, out.results(2), body=body)
        assert verus.verify(MAX, HONEST).verdict is Verdict.ERROR
        assert len((folder / "options").read_text().splitlines()) == 4  # twice, and a program that has to verify


def test_a_text_that_verus_dies_of_is_undecided(tmp_path: Path) -> None:
    verus = fake(tmp_path, out.results(2), body='grep -q max "$1" && kill -9 $$')
    assert verus.verify(MAX, HONEST).verdict is Verdict.UNKNOWN
    assert verus.check_spec(MAX).verdict is Verdict.UNKNOWN


def test_options_and_program(tmp_path: Path) -> None:
    fake(tmp_path, out.results(2)).verify(MAX, HONEST)
    options = (tmp_path / "options").read_text()
    assert "--no-cheating" in options
    assert "--output-json" in options
    assert "--rlimit 10" in options
    program = (tmp_path / "programs").read_text()
    assert program == f"use vstd::prelude::*;\nverus! {{\n{MAX}\n{HONEST}\n}} // verus!\nfn main() {{}}\n"


def test_a_specification_is_probed_three_times(tmp_path: Path) -> None:
    """The fake proves everything, so the second probe finds the precondition impossible."""
    judgement = fake(tmp_path, out.results(2)).check_spec(MAX)
    assert judgement.verdict is Verdict.REFUTED
    assert judgement.detail.startswith("unsat_requires")
    assert (tmp_path / "programs").read_text().count("verus! {") == 3
    assert "--no-cheating" not in (tmp_path / "options").read_text()


def by_body(folder: Path, **proved: bool) -> Verus:
    """A `verus` that proves the probes whose bodies hold the given word."""
    tests = "\n".join(
        f'if grep -q "{word}" "$1"; then cat {folder}/{"out" if good else "bad"}; exit {0 if good else 1}; fi'
        for word, good in proved.items()
    )
    (folder / "bad").write_text(out.results(1, 1))
    return fake(folder, out.results(2), body=tests)


@pytest.mark.parametrize(
    ("proved", "verdict", "detail"),
    [
        ({"selfplay_any": False, "assert": False, "assume": True}, Verdict.VERIFIED, ""),
        ({"selfplay_any": False, "assert": True, "assume": True}, Verdict.REFUTED, "unsat_requires"),
        ({"selfplay_any": True, "assert": False, "assume": True}, Verdict.REFUTED, "vacuous"),
        ({"selfplay_any": False, "assert": False, "assume": False}, Verdict.REFUTED, "undefined"),
    ],
)
def test_what_the_probes_say(tmp_path: Path, proved: dict[str, bool], verdict: Verdict, detail: str) -> None:
    judgement = by_body(tmp_path, **proved).check_spec(MAX)
    assert (judgement.verdict, judgement.detail.split(":")[0]) == (verdict, detail)


def test_the_corpus_is_large() -> None:
    assert len(ANSWERS) + len(SPECIFICATIONS) >= 60


@pytest.mark.parametrize(("name", "spec", "answer"), cheats(), ids=[cheat[0] for cheat in cheats()])
def test_no_cheat_reaches_the_binary(tmp_path: Path, name: str, spec: str, answer: str) -> None:
    verus = fake(tmp_path, out.results(9))  # proves everything that it is asked
    judgement = verus.verify(spec, answer)
    assert judgement.verdict is Verdict.MALFORMED
    assert "\n" not in judgement.detail
    assert not (tmp_path / "programs").exists()


def test_imports_get_the_names_that_the_release_knows() -> None:
    old = "use builtin::*;\nuse builtin_macros::*;\nuse vstd::prelude::*;\n" + F
    assert "use verus_builtin::*;\nuse verus_builtin_macros::*;" in program_of(old, "verus_builtin")
    assert program_of(old, "builtin").count("use builtin") == 2
    new = old.replace("builtin", "verus_builtin")
    assert "use builtin::*;\nuse builtin_macros::*;" in program_of(new, "builtin")


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (DATE, "verus_builtin"),
        ("0.2025.07.12.0b6f3cb", "builtin"),
        ("0.2025.07.30.aaaaaaa", "verus_builtin"),
        ("?", "verus_builtin"),
    ],
)
def test_the_version_decides_and_is_reported(tmp_path: Path, version: str, name: str) -> None:
    verus = fake(tmp_path, "", version=version)
    assert verus._builtin == name
    assert verus.version == (version if version != "?" else "unknown")


def test_functions_are_counted_without_specifications() -> None:
    program = "spec fn a() -> bool { true }\nopen spec fn b() -> bool { true }\nproof fn c() { }\n" + MAX + HONEST
    assert functions_to_verify(program + "// fn d()\n") == 2


def test_a_missing_binary_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("VERUS_PATH", raising=False)
    with pytest.raises(FileNotFoundError, match=r"download a release from github\.com/verus-lang/verus"):
        Verus()
    monkeypatch.setenv("VERUS_PATH", str(tmp_path / "elsewhere"))
    with pytest.raises(FileNotFoundError, match="elsewhere"):
        Verus()
    with pytest.raises(FileNotFoundError, match="no-such-verus"):
        Verus("no-such-verus")


def test_normal_forms() -> None:
    verus_form = Verus.normal_form
    same = MAX.replace("x", "a").replace("y", "b").replace("max", "larger").replace("\n", " // word\n")
    assert verus_form(None, MAX) == verus_form(None, same)  # type: ignore[arg-type]
    assert verus_form(None, MAX) != verus_form(None, MAX.replace(">=", ">"))  # type: ignore[arg-type]
