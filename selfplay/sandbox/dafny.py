"""Debian's `dafny` 2.3 as a prover, its output believed only where it is explicit.

Warm servers answer where Dafny brings one (`dafny_server`), else there is a process for each question.

Dafny's exit code is not enough: it is 0 when the resource limit ran out, when `{:verify false}` skipped the proof, and
for a loop without a body. So a program counts as verified only when the trace names exactly one method body and every
verification it lists says "verified". A process that stalls or dies is killed with its group and tried once more; then
the verdict is UNKNOWN if Dafny works on another program, else ERROR, and never REFUTED.
"""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from selfplay.sandbox.base import Judgement, Verdict, unfinished
from selfplay.sandbox.dafny_server import ServerPool
from selfplay.sandbox.dafny_text import (
    ForbiddenError,
    check_answer,
    check_spec_text,
    declarations,
    normal_form,
    stripped,
)
from selfplay.sandbox.process import run_process

_TASK = re.compile(
    r"^Verifying (\S+) \.\.\.\s*\n((?:(?!Verifying |Dafny program).*\n)*?)\s*\[[^\]]*\]\s+(\w[\w ]*)$", re.M
)
_SUMMARY = re.compile(r"^Dafny program verifier finished with (\d+) verified, (\d+) errors?", re.M)
_MESSAGE = re.compile(r"^\S+?\((\d+),(\d+)\): (Error.*)$", re.M)
_UNDECIDED = ("timed out", "out of resource", "out of memory", "inconclusive")
_BODYLESS = re.compile(r"(?:loop|method|statement) has no body|without a body", re.I)

# A server keeps verdicts and proofs' ingredients from one question to the next, by the names of methods, and encodes
# programs for that in a way with which Z3 finds fewer proofs. Every question is to be the first.
SERVER_OPTIONS = ("/verifySnapshots:0",)

_MALFORMED_EXIT = 2
_KNOWN_EXITS = (0, _MALFORMED_EXIT, 4)


@dataclass(frozen=True)
class DafnyRun:
    """One finished process. `tasks` maps each verification Boogie lists to its outcome, "verified" for a proof."""

    exit_code: int
    output: str
    tasks: dict[str, str]

    @classmethod
    def of_server(cls, text: str) -> DafnyRun:
        """A server's answer, which has neither exit code nor summary, as a process would have given it."""
        tasks = _tasks(text)
        failed = sum(outcome != "verified" for outcome in tasks.values())
        malformed = not tasks and _MESSAGE.search(text) is not None
        code = _MALFORMED_EXIT if malformed else 4 if failed else 0
        summary = f"\nDafny program verifier finished with {len(tasks) - failed} verified, {failed} errors\n"
        return cls(code, text if malformed else text + summary, tasks)

    @property
    def complete(self) -> bool:
        """Whether Dafny got to the end of what it does: parse errors reported, or every task with an outcome."""
        if self.exit_code not in _KNOWN_EXITS:
            return False
        return self.exit_code == _MALFORMED_EXIT or _SUMMARY.search(self.output) is not None

    def message(self) -> str:
        """The first error, as one line."""
        found = _MESSAGE.search(self.output)
        return f"{found[1]}:{found[2]}: {found[3]}" if found else "Dafny gave no message"


def _tasks(text: str) -> dict[str, str]:
    return {found[1]: found[3].replace("errors", "error") for found in _TASK.finditer(text)}


class Dafny:
    """Judges with an installed `dafny`. Thread-safe: every question has its own process and folder."""

    name = "dafny"

    def __init__(
        self,
        path: str = "dafny",
        z3_path: str = "",
        prover_time_limit_s: int = 10,
        time_limit_s: float = 120.0,
        servers: int = 2,
    ) -> None:
        """Limits in seconds: of one proof inside Dafny, and of a whole question. `servers`: how many stay warm.

        Raises:
            FileNotFoundError: `path` is no executable.
            ValueError: a limit is not positive.
        """
        found = shutil.which(path)
        if found is None:
            raise FileNotFoundError(f"sandbox.path={path}: no such executable (Debian's package is `dafny`)")
        if prover_time_limit_s <= 0 or time_limit_s <= 0:
            raise ValueError("Dafny's time limits must be positive")
        self.path, self.time_limit_s = found, time_limit_s
        self._options = ["/nologo", "/compile:0", "/trace", f"/timeLimit:{prover_time_limit_s}"]
        if z3_path:
            self._options.append(f"/z3exe:{z3_path}")
        command = server_command(found)
        self._pool = ServerPool(command, tempfile.gettempdir(), servers) if command and servers else None
        if self._pool:
            atexit.register(self._pool.close)

    @cached_property
    def version(self) -> str:
        """Dafny's own version string, from the banner it prints; "unknown" where it prints none."""
        with tempfile.TemporaryDirectory(prefix="dafny-") as folder:
            (Path(folder) / "empty.dfy").touch()
            run = self._once([self.path, "/compile:0", "empty.dfy"], folder)
        found = re.search(r"^Dafny\D*(\d+\.\d+[.\d]*)", run.output if run else "")
        return found[1] if found else "unknown"

    def check_spec(self, spec: str) -> Judgement:
        """Well-formed, and neither vacuous nor impossible, by three bodies.

        `assume false` has to verify (the clauses are well-formed), `assert false` must not (the precondition can be
        met), and the empty body must not (the postcondition says something of the results).
        """
        try:
            check_spec_text(spec)
        except ForbiddenError as error:
            return Judgement(Verdict.MALFORMED, str(error))
        bodies = ("assume false;", "assert false;", "")
        program = "\n".join(f"module SelfplayProbe{i} {{\n{spec}\n{{ {body} }}\n}}" for i, body in enumerate(bodies))
        run = self.run(program, cheating=True)
        if run is None:
            return unfinished(self.name, self._works())
        if run.exit_code == _MALFORMED_EXIT:
            return Judgement(Verdict.MALFORMED, run.message())
        outcomes = [[o for task, o in run.tasks.items() if f"SelfplayProbe{i}." in task] for i in range(len(bodies))]
        if any(outcome in _UNDECIDED for probe in outcomes for outcome in probe):
            return Judgement(Verdict.UNKNOWN, "undecided: a probe of the specification ran out of time")
        stub, impossible, vacuous = (bool(o) and all(each == "verified" for each in o) for o in outcomes)
        if not stub:
            return Judgement(Verdict.REFUTED, f"undefined: {run.message()}")
        if impossible:
            return Judgement(Verdict.REFUTED, "unsat_requires: no input satisfies the precondition")
        if vacuous:
            return Judgement(Verdict.REFUTED, "vacuous: every result satisfies the postcondition")
        return Judgement(Verdict.VERIFIED)

    def normal_form(self, spec: str) -> str:
        """By tokens: names, blanks and comments make no difference, redundant brackets do."""
        return normal_form(spec)

    def verify(self, spec: str, answer: str) -> Judgement:
        """VERIFIED when both texts pass the token ban and Dafny proves the one method they make."""
        try:
            check_spec_text(spec)
            check_answer(answer)
        except ForbiddenError as error:
            return Judgement(Verdict.MALFORMED, str(error))
        run = self.run(f"{spec}\n{answer}")
        if run is None:
            return unfinished(self.name, self._works())
        return judge(run, bodies_of(spec) + 1)

    def _works(self) -> bool:
        """Whether Dafny proves what it should."""
        run = self.run("method Probe(x: int) returns (r: int)\n  ensures r == x\n{ r := x; }")
        return run is not None and judge(run, 1).verified

    def run(self, program: str, cheating: bool = False) -> DafnyRun | None:
        """Dafny's run on a program text, tried twice; None where neither finished. `cheating`: allow `assume`.

        The second try is a process in any case: a server's stack is smaller.
        """
        options = self._options if cheating else [*self._options, "/noCheating:1"]
        if self._pool is not None:
            answer = self._pool.ask([*options, *SERVER_OPTIONS], program, self.time_limit_s)
            if answer is not None and "[FATAL]" not in answer:
                return DafnyRun.of_server(answer)
        with tempfile.TemporaryDirectory(prefix="dafny-") as folder:
            file = Path(folder) / "program.dfy"
            file.write_bytes(program.encode())
            for _ in range(1 if self._pool else 2):
                run = self._once([self.path, *options, str(file)], folder)
                if run is not None and run.complete:
                    return run
        return None

    def _once(self, command: list[str], folder: str) -> DafnyRun | None:
        finished = run_process(command, folder, self.time_limit_s)
        if finished is None:
            return None
        text = finished.stdout + finished.stderr
        return DafnyRun(finished.exit_code, text, _tasks(text))


def server_command(dafny: str) -> list[str] | None:
    """How to start the server that belongs to an installed `dafny`; None if it has none, as since version 4."""
    server = Path(dafny).resolve().parent.parent / "lib" / "dafny" / "DafnyServer.exe"
    runtime = shutil.which("cli") or shutil.which("mono")
    return [runtime, str(server)] if server.is_file() and runtime else None


def bodies_of(spec: str) -> int:
    """How many methods and lemmas of a specification's context have bodies of their own to verify."""
    return sum(
        kind in ("method", "lemma", "constructor")
        for kind, item in declarations(stripped(spec))
        if item.body is not None
    )


def judge(run: DafnyRun, at_least: int) -> Judgement:
    """The verdict on a program with so many bodies of methods and lemmas."""
    if run.exit_code == _MALFORMED_EXIT:
        return Judgement(Verdict.MALFORMED, run.message())
    if _BODYLESS.search(run.output):
        return Judgement(Verdict.MALFORMED, "a loop or a method without a body")
    summary = _SUMMARY.search(run.output)
    assert summary is not None, "a complete run has a summary"
    bodies = [task for task in run.tasks if task.startswith("Impl$$")]
    outcomes = set(run.tasks.values())
    if run.exit_code == 0 and len(bodies) == at_least and outcomes == {"verified"} and int(summary[2]) == 0:
        return Judgement(Verdict.VERIFIED)
    if len(bodies) != at_least:
        return Judgement(Verdict.MALFORMED, f"{len(bodies)} bodies were verified, not {at_least}")
    undecided = outcomes & set(_UNDECIDED)
    if undecided and "error" not in outcomes:
        return Judgement(Verdict.UNKNOWN, f"undecided: {', '.join(sorted(undecided))}")
    return Judgement(Verdict.REFUTED, run.message())
