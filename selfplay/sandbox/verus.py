"""Verus as a prover: one process for each question, judged from its JSON and not from its exit code alone.

The judge has five steps: the specification's text is a locked prefix; the token ban (`verus_text`); `--no-cheating`
with our own resource limit and a wall clock on the process group; success, exit code 0, and as many verified functions
as the program has; and vacuity probes of the specification. A process that stalls or dies is tried once more; then the
verdict is ERROR, never REFUTED.

No Verus binary runs where this project is tested: the judge was tested against outputs recorded in the documented
formats (`tests/sandbox/verus_outputs.py`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from selfplay.sandbox.base import Judgement, Verdict, unfinished
from selfplay.sandbox.process import Finished, run_process
from selfplay.sandbox.source_text import blanked
from selfplay.sandbox.verus_text import ForbiddenError, check_answer, check_spec_text, normal_form

RENAMED = "2025.07.30"  # the release in which `builtin` became `verus_builtin`
HOW_TO_GET_IT = (
    "download a release from github.com/verus-lang/verus, then set sandbox.path or VERUS_PATH to its `verus`"
)
_STUB = "{ assume(false); vstd::pervasive::unreached() }"
_IMPOSSIBLE = "{ assert(false); vstd::pervasive::unreached() }"
_ANY_RESULT = "{ selfplay_any() }"
_ANY = "#[verifier::external_body]\nfn selfplay_any<T>() -> T { unimplemented!() }\n"
_FUNCTION = re.compile(r"\bfn\s+\w+")
_SPEC_FUNCTION = re.compile(r"\bspec(?:\s*\([^)]*\))?\s+fn\s+\w+")


@dataclass(frozen=True)
class VerusRun:
    """One finished process: its exit code, the object on stdout, and the diagnostics on stderr."""

    exit_code: int
    results: dict[str, Any]
    diagnostics: list[dict[str, Any]]

    @property
    def errors(self) -> list[str]:
        """The messages of the errors, one line each."""
        found = (entry for entry in self.diagnostics if entry.get("level") == "error")
        return [str(entry.get("message", "")).splitlines()[0] for entry in found if entry.get("message")]

    def message(self) -> str:
        """The first error, as one line."""
        return self.errors[0] if self.errors else "Verus gave no message"


class Verus:
    """Judges with a `verus` binary. Thread-safe: every question has its own process and folder."""

    name = "verus"

    def __init__(self, path: str = "", rlimit: float = 10.0, time_limit_s: float = 60.0) -> None:
        """`path`, else the environment's VERUS_PATH, else `verus` on the PATH. Limits: Verus's own, and seconds.

        Raises:
            FileNotFoundError: there is no such executable; says how to get one.
            ValueError: a limit is not positive.
        """
        named = path or os.environ.get("VERUS_PATH", "")
        found = shutil.which(named or "verus")
        if found is None:
            raise FileNotFoundError(f"sandbox.path={named or 'verus'}: no such executable; {HOW_TO_GET_IT}")
        if rlimit <= 0 or time_limit_s <= 0:
            raise ValueError("Verus's limits must be positive")
        self.path, self.rlimit, self.time_limit_s = found, rlimit, time_limit_s

    @cached_property
    def version(self) -> str:
        """The release's own version, as `0.2025.08.25.63ab0cb`; "unknown" where it does not say."""
        output = run_process([self.path, "--version"], None, self.time_limit_s)
        found = re.search(r"\d+\.(\d{4}\.\d{2}\.\d{2})\.\w+", output.stdout if output else "")
        return found[0] if found else "unknown"

    @property
    def _builtin(self) -> str:
        """What this release calls the crate of built-in names."""
        found = re.search(r"\d{4}\.\d{2}\.\d{2}", self.version)
        return "builtin" if found and found[0] < RENAMED else "verus_builtin"

    def check_spec(self, spec: str) -> Judgement:
        """Well-formed, and neither vacuous nor impossible, by three bodies.

        An assumed body has to verify (the clauses are well-formed), `assert(false)` must not (the precondition can be
        met), and a body that returns just any value must not (the postcondition says something of the result).
        """
        try:
            check_spec_text(spec)
        except ForbiddenError as error:
            return Judgement(Verdict.MALFORMED, str(error))
        runs = []
        for body, extra in ((_STUB, ""), (_IMPOSSIBLE, ""), (_ANY_RESULT, _ANY)):
            run = self.run(extra + spec + "\n" + body, cheating=True)
            if run is None:
                return unfinished(self.name, self._works())
            runs.append(run)
        stub, impossible, vacuous = runs
        if not _proved(stub):
            return _failed(stub, "undefined: ")
        if _proved(impossible):
            return Judgement(Verdict.REFUTED, "unsat_requires: no input satisfies the precondition")
        if _proved(vacuous):
            return Judgement(Verdict.REFUTED, "vacuous: every result satisfies the postcondition")
        return Judgement(Verdict.VERIFIED)

    def normal_form(self, spec: str) -> str:
        """By tokens: names, blanks and comments make no difference."""
        return normal_form(spec)

    def verify(self, spec: str, answer: str) -> Judgement:
        """VERIFIED when both texts pass the token ban and Verus proves every function of the program they make."""
        try:
            check_spec_text(spec)
            check_answer(answer)
        except ForbiddenError as error:
            return Judgement(Verdict.MALFORMED, str(error))
        program = f"{spec}\n{answer}"
        run = self.run(program)
        if run is None:
            return unfinished(self.name, self._works())
        return judge(run, functions_to_verify(program))

    def _works(self) -> bool:
        """Whether Verus proves what it should."""
        run = self.run("fn probe(x: u8) -> (r: u8)\n    ensures\n        r == x,\n{ x }")
        return run is not None and judge(run, 1).verified

    def run(self, items: str, cheating: bool = False) -> VerusRun | None:
        """Verus's run on items, tried twice; None where neither finished. `cheating`: allow `assume`."""
        options = [
            "--output-json",
            "--time",
            "--error-format=json",
            "--num-threads",
            "1",
            "--rlimit",
            f"{self.rlimit:g}",
        ]
        if not cheating:
            options.append("--no-cheating")
        with tempfile.TemporaryDirectory(prefix="verus-") as folder:
            file = Path(folder) / "program.rs"
            file.write_text(program_of(items, self._builtin), encoding="utf-8")
            for _ in range(2):
                output = run_process([self.path, str(file), *options], folder, self.time_limit_s)
                run = _read(output) if output else None
                if run is not None:
                    return run
        return None


def program_of(items: str, builtin: str) -> str:
    """A whole program around items: imports by the names that this release knows, and an empty `main`."""
    other = "builtin" if builtin == "verus_builtin" else "verus_builtin"
    items = re.sub(rf"\b(use\s+(?:::)?){other}(_macros)?\b", rf"\1{builtin}\2", items)
    main = "" if re.search(r"\bfn\s+main\s*\(", blanked(items, "Verus")) else "\nfn main() {}"
    prelude = "" if re.search(r"\buse\s+vstd\s*::\s*(?:prelude|\{)", items) else "use vstd::prelude::*;\n"
    return f"{prelude}verus! {{\n{items}\n}} // verus!{main}\n"


def functions_to_verify(program: str) -> int:
    """How many queries a program makes at least: its executable and proof functions."""
    code = blanked(program, "Verus")
    return len(_FUNCTION.findall(code)) - len(_SPEC_FUNCTION.findall(code))


def judge(run: VerusRun, at_least: int) -> Judgement:
    """The verdict on a finished run that has to verify so many functions. An empty `main` is one more query."""
    if _proved(run) and int(run.results["verified"]) >= at_least:
        return Judgement(Verdict.VERIFIED)
    if _proved(run):
        return Judgement(Verdict.MALFORMED, f"{run.results['verified']} functions were verified, not {at_least}")
    return _failed(run, "")


def _proved(run: VerusRun) -> bool:
    results = run.results
    return (
        run.exit_code == 0
        and results.get("success") is True
        and results.get("encountered-vir-error") is False
        and results.get("errors") == 0
        and not run.errors
    )


def _failed(run: VerusRun, why: str) -> Judgement:
    if run.results.get("encountered-vir-error") or "errors" not in run.results:
        return Judgement(Verdict.MALFORMED, run.message())
    if run.results["errors"] == 0:  # borrow checking and other compiler errors come after the proofs
        return Judgement(Verdict.MALFORMED, run.message())
    if all("resource limit" in message.lower() or "rlimit" in message.lower() for message in _proof_errors(run)):
        return Judgement(Verdict.UNKNOWN, "undecided: the resource limit ran out")
    return Judgement(Verdict.REFUTED, f"{why}{run.message()}")


def _proof_errors(run: VerusRun) -> list[str]:
    return [message for message in run.errors if not message.startswith("aborting due to")] or [""]


def _read(output: Finished) -> VerusRun | None:
    """The run, or None if Verus did not get to its end: killed, or no result object."""
    if output.exit_code not in (0, 1):
        return None
    try:
        results = json.loads(output.stdout[output.stdout.index("{") :])["verification-results"]
    except (ValueError, KeyError, TypeError):
        return None
    diagnostics = []
    for line in output.stderr.splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(entry, dict):
            diagnostics.append(entry)
    return VerusRun(output.exit_code, dict(results), diagnostics) if isinstance(results, dict) else None
