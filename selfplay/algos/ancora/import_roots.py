"""Root specifications from real programs: `python -m selfplay.algos.ancora.import_roots SOURCE... --out roots.jsonl`.

A source is a Dafny or Verus file, a folder of them, or a JSONL file with `source`, `verified`, `unverified` or `spec`
(or the `vc-*` parts of vericoding's tasks). Each program is split into specification and body, and passes the quality
filter or is rejected with a reason:

    unreadable   no item with a postcondition, or brackets that do not match
    forbidden    an assumption or another way around the proof (the prover's token ban)
    too_long     more characters than `--max-chars`
    duplicate    the same as an earlier one up to names
    refused      the prover: not well-formed, vacuous, or impossible (with `--prover`)

The paper filters its seed pool without saying how; this is the gate that proposals have to pass, applied to roots.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from selfplay.curriculum.roots import Root
from selfplay.runs.files import to_json, write_atomic
from selfplay.sandbox import dafny_text, verus_text
from selfplay.sandbox.base import Prover, Verdict
from selfplay.sandbox.config import PROVER_CONFIGS
from selfplay.sandbox.registry import build_prover
from selfplay.sandbox.source_text import UnreadableError
from selfplay.sandbox.split import split_program

SUFFIXES = {".dfy": "Dafny", ".rs": "Verus"}
TEXT_RULES: Mapping[str, Any] = {"Dafny": dafny_text, "Verus": verus_text}
_WHOLE = ("verified", "source", "unverified", "spec")
_PARTS = ("vc-preamble", "vc-helpers", "vc-spec", "vc-code", "vc-postamble")


@dataclass(frozen=True)
class Program:
    """A program by a name that people know; `family` is its collection."""

    name: str
    text: str
    family: str


@dataclass(frozen=True)
class Rejection:
    """Why a program gives no root: a word of this module's list, and a line for people."""

    name: str
    reason: str
    detail: str


def programs(source: Path, language: str) -> Iterator[Program]:
    """The programs of a file or folder, in order.

    Raises:
        ValueError: nothing that can be read, or a bad line; names file and line.
    """
    if source.is_dir():
        for path in sorted(p for p in source.rglob("*") if SUFFIXES.get(p.suffix) == language):
            yield Program(str(path.relative_to(source)), path.read_text(encoding="utf-8"), path.parent.name)
    elif SUFFIXES.get(source.suffix) == language:
        yield Program(source.name, source.read_text(encoding="utf-8"), source.parent.name)
    elif source.suffix == ".jsonl":
        for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
            try:
                entry = json.loads(line)
                text = _text(entry)
            except (json.JSONDecodeError, ValueError, AttributeError) as error:
                raise ValueError(f"{source}:{number}: {error}") from error
            family = entry.get("group") or entry.get("family") or source.stem
            yield Program(str(entry.get("id", number)), text, str(family))
    else:
        raise ValueError(f"{source}: not a folder, a JSONL file or a {language} program")


def _text(entry: Mapping[str, Any]) -> str:
    if "vc-spec" in entry:
        return "\n".join(str(entry.get(part) or "") for part in _PARTS)
    whole = next((entry[key] for key in _WHOLE if entry.get(key)), None)
    if whole is not None:
        return str(whole)
    raise ValueError(f"none of {', '.join((*_WHOLE, 'vc-spec'))} is there")


class Filter:
    """The quality filter; remembers what it let pass, for the duplicates."""

    def __init__(self, language: str, prover: Prover | None, max_chars: int) -> None:
        self.rules, self.language = TEXT_RULES[language], language
        self.prover, self.max_chars = prover, max_chars
        self._seen: dict[str, str] = {}

    def __call__(self, program: Program) -> Root | Rejection:
        """A root, with its answer where the prover verified it; or why there is none."""
        try:
            split = split_program(program.text, self.language)
        except UnreadableError as error:
            return Rejection(program.name, "unreadable", str(error))
        try:
            self.rules.check_spec_text(split.spec)
        except ValueError as error:
            return Rejection(program.name, "forbidden", str(error))
        if len(split.spec) > self.max_chars:
            return Rejection(program.name, "too_long", f"{len(split.spec)} characters")
        form = self.rules.normal_form(split.spec)
        if form in self._seen:
            return Rejection(program.name, "duplicate", f"of {self._seen[form]}")
        if self.prover is not None:
            judgement = self.prover.check_spec(split.spec)
            if not judgement.verified:
                word = "prover_error" if judgement.verdict is Verdict.ERROR else "refused"
                return Rejection(program.name, word, judgement.detail or str(judgement.verdict))
        self._seen[form] = program.name
        return Root(program.name, split.spec, program.family, answer=self._answer(split.spec, split.answer))

    def _answer(self, spec: str, answer: str | None) -> str | None:
        """The body, if there is a prover and it verifies."""
        if answer is None or self.prover is None:
            return None
        return answer if self.prover.verify(spec, answer).verified else None


def uniquely_named(outcomes: Sequence[Root | Rejection]) -> list[Root | Rejection]:
    """The same, with a number after a name that an earlier one has: root files want names that differ."""
    taken: set[str] = set()
    out = []
    for outcome in outcomes:
        name, number = outcome.name, 1
        while name in taken:
            number += 1
            name = f"{outcome.name}#{number}"
        taken.add(name)
        out.append(replace(outcome, name=name))
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m selfplay.algos.ancora.import_roots", description="Import roots.")
    parser.add_argument("sources", nargs="+", type=Path, metavar="SOURCE")
    parser.add_argument("--out", required=True, type=Path, help="the root file to write")
    parser.add_argument("--language", default="Dafny", choices=sorted(TEXT_RULES))
    parser.add_argument("--prover", choices=sorted(PROVER_CONFIGS), help="check each specification with it")
    parser.add_argument("--max-chars", type=int, default=6000)
    options = parser.parse_args(argv)
    try:
        prover = build_prover(PROVER_CONFIGS[options.prover]()) if options.prover else None
        found = [program for source in options.sources for program in programs(source, options.language)]
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    judge = Filter(options.language, prover, options.max_chars)
    outcomes = []
    for number, program in enumerate(found, 1):
        outcomes.append(judge(program))
        if prover is not None:
            print(f"\r{number}/{len(found)}", end="", file=sys.stderr, flush=True)
    outcomes = uniquely_named(outcomes)
    roots = [outcome for outcome in outcomes if isinstance(outcome, Root)]
    rejected = [outcome for outcome in outcomes if isinstance(outcome, Rejection)]
    lines = [
        {"id": root.name, "spec": root.spec, "family": root.family, **({"answer": root.answer} if root.answer else {})}
        for root in roots
    ]
    write_atomic(options.out, "".join(to_json(line) + "\n" for line in lines))
    report = options.out.with_suffix(".rejected.jsonl")
    write_atomic(report, "".join(to_json(vars(rejection)) + "\n" for rejection in rejected))
    proved = sum("answer" in line for line in lines)
    print(f"{len(roots)} roots of {len(found)} programs in {options.out}, {proved} with a proof")
    for reason, count in Counter(rejection.reason for rejection in rejected).most_common():
        print(f"{count:5d}  {reason}")
    if rejected:
        print(f"the reason for each is in {report}")
    return 0 if roots else 1


if __name__ == "__main__":
    sys.exit(main())
