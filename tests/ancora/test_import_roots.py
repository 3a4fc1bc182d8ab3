"""Roots from programs: what is taken, what is rejected, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from selfplay.algos.ancora.import_roots import Filter, Program, Rejection, main, programs, uniquely_named
from selfplay.curriculum.roots import Root, load_roots
from selfplay.sandbox.dafny_lite import DafnyLite

GOOD = "method M(x: int) returns (r: int)\n  ensures r == x + 31\n{\n  r := x + 31;\n}\n"
SAMPLES = {
    "good": GOOD,
    "again": GOOD.replace("x", "y").replace("M", "N"),
    "wrong": GOOD.replace("31;", "32;").replace("31", "33"),
    "empty": "method M() { }",
    "assumed": GOOD.replace("ensures r == x + 31", "ensures r == x + 35").replace("{", "{ assume false;", 1),
    "axiom": "lemma L() ensures false\n\n" + GOOD.replace("31", "34"),
    "vacuous": GOOD.replace("r == x + 31", "r == r"),
    "long": GOOD.replace("31", "3" * 900),
}
REASONS = {
    "again": "duplicate",
    "empty": "unreadable",
    "axiom": "forbidden",
    "vacuous": "refused",
    "long": "too_long",
}


def test_every_rejection_has_its_reason() -> None:
    judge = Filter("Dafny", DafnyLite(), max_chars=500)
    outcomes = {name: judge(Program(name, text, "f")) for name, text in SAMPLES.items()}
    rejected = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Rejection)}
    assert {name: outcome.reason for name, outcome in rejected.items()} == REASONS
    assert all(outcome.detail for outcome in rejected.values())
    answers = {name: o.answer for name, o in outcomes.items() if not isinstance(o, Rejection)}
    assert answers["good"] == "{\n  r := x + 31;\n}"
    assert answers["wrong"] is None  # the specification is fine, the program does not prove it
    assert answers["assumed"] is None


def test_the_command_writes_roots_that_load_and_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "programs.jsonl"
    source.write_text("".join(json.dumps({"id": n, "source": t}) + "\n" for n, t in SAMPLES.items()))
    out = tmp_path / "roots.jsonl"
    assert main([str(source), "--out", str(out), "--prover", "dafny_lite", "--max-chars", "500"]) == 0
    assert "3 roots of 8 programs" in capsys.readouterr().out
    assert [root.name for root in load_roots(out)] == ["good", "wrong", "assumed"]
    report = [json.loads(line) for line in out.with_suffix(".rejected.jsonl").read_text().splitlines()]
    assert {entry["name"]: entry["reason"] for entry in report} == REASONS


def test_names_are_told_apart() -> None:
    names = ["a", "b", "a", "a#2", "a"]
    found = uniquely_named([Root(name, f"spec {i}") for i, name in enumerate(names)])
    assert [root.name for root in found] == ["a", "b", "a#2", "a#2#2", "a#3"]
    assert [vars(root)["spec"] for root in found] == [f"spec {i}" for i in range(5)]


def test_shapes_of_sources(tmp_path: Path) -> None:
    (tmp_path / "a.dfy").write_text(GOOD)
    (tmp_path / "b.rs").write_text("fn main() {}")
    task = {
        "id": "T",
        "vc-preamble": "// p",
        "vc-helpers": "",
        "vc-spec": "method M()\n  ensures true",
        "vc-code": "{ }",
    }
    (tmp_path / "tasks.jsonl").write_text(json.dumps(task) + "\n")
    assert [p.name for p in programs(tmp_path, "Dafny")] == ["a.dfy"]
    assert [p.text for p in programs(tmp_path / "tasks.jsonl", "Dafny")] == [
        "// p\n\nmethod M()\n  ensures true\n{ }\n"
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.txt", "", "not a folder, a JSONL file or a Dafny program"),
        ("x.jsonl", '{"source": "a"}\n{oops', "x.jsonl:2: "),
        ("x.jsonl", '{"name": "a"}\n', "x.jsonl:1: none of verified, source"),
    ],
)
def test_bad_sources_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    assert main([str(tmp_path / name), "--out", str(tmp_path / "out.jsonl")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
