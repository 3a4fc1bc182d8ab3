"""Whether statement, reference and tests say one thing (BenchEvolver, section 3.3 and appendix C.1).

Three witnesses: the reference C', a brute-force program and an oracle, both made from the statement alone. The public
examples are put to a vote of three; on the hidden inputs brute force speaks where it is fast enough, and the oracle is
asked about the case on which the two programs differ. The odd one out is repaired, or the statement where all differ.
Every repair takes one of `repairs` attempts, whatever its kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from selfplay.algos.benchevolver.candidate import Candidate, Reason
from selfplay.algos.benchevolver.evolution_config import ValidationConfig
from selfplay.algos.benchevolver.models import Call, CallFailed, Models
from selfplay.algos.benchevolver.prompts import Wording
from selfplay.algos.benchevolver.replies import Unreadable, last_code, outputs, read_statement
from selfplay.benchmarks.code_task import CodeTask
from selfplay.engine.episode import Message
from selfplay.sandbox.judge.cases import StdioTest
from selfplay.sandbox.judge.compare import same_output
from selfplay.sandbox.judge.judge import Judge
from selfplay.sandbox.python.result import Ending, RunResult

SHOWN = 400  # characters of an input or output in a counterexample; longer ones are not put to the oracle


@dataclass(frozen=True)
class Problem:
    """What is wrong, by whom to mend: `kind` is reference, brute force or statement."""

    kind: str
    counterexample: str


@dataclass
class Validation:
    """`candidate` is as repaired; `outputs` are the reference's on public and hidden inputs."""

    candidate: Candidate
    outputs: tuple[str, ...] = ()
    reason: Reason | None = None
    detail: str = ""
    repairs: tuple[str, ...] = ()

    def tests(self) -> tuple[tuple[StdioTest, ...], tuple[StdioTest, ...]]:
        """Public and hidden tests."""
        count = len(self.candidate.public_inputs)
        inputs = self.candidate.public_inputs + self.candidate.inputs
        tests = tuple(StdioTest(given, out) for given, out in zip(inputs, self.outputs, strict=True))
        return tests[:count], tests[count:]


class Triangulation:
    """Validates one candidate for a stdin/stdout task."""

    def __init__(
        self, models: Models, judge: Judge, wording: Wording, config: ValidationConfig, key: tuple[str | int, ...]
    ) -> None:
        self.models, self.judge, self.wording, self.config, self.key = models, judge, wording, config, key
        self.repairs: list[str] = []

    async def validate(self, candidate: Candidate, parent: CodeTask) -> Validation:
        """Raises BudgetSpent, EndpointRefused or NotInLog; a failed call is a rejection."""
        try:
            return await self._validate(candidate, parent)
        except CallFailed as error:
            return Validation(candidate, reason=Reason.NO_CALL, detail=str(error), repairs=tuple(self.repairs))

    async def _validate(self, candidate: Candidate, parent: CodeTask) -> Validation:
        brute: str | None = None
        while True:
            known = tuple(self.repairs)
            runs = await self._runs(candidate.mutation.reference, candidate.public_inputs + candidate.inputs)
            out = tuple(run.stdout for run in runs)
            problem = _broken(runs, candidate)
            reason = Reason.REFERENCE_FAILS
            if problem is None:
                if not await self._stable(candidate, out):
                    return Validation(candidate, out, Reason.UNSTABLE, repairs=known)
                done = Validation(candidate, out, repairs=known)
                if await self._solves(parent.reference, done):
                    return replace(done, reason=Reason.PARENT_SOLVES)
                brute = brute or await self._program("brute_force", self.wording.brute_force(candidate.statement))
                problem, reason = await self._disagreement(candidate, out, brute), Reason.INCONSISTENT
                if problem is None:
                    return done
            if len(self.repairs) >= self.config.repairs:
                return Validation(candidate, out, reason, problem.counterexample[:300], known)
            self.repairs.append(problem.kind)
            if problem.kind == "brute force":
                brute = await self._repaired_brute_force(candidate, brute or "", problem)
            else:
                candidate, brute = (
                    await self._repaired(candidate, problem),
                    None if problem.kind == "statement" else brute,
                )

    # ---------------------------------------------------------------- witnesses

    async def _disagreement(self, candidate: Candidate, out: Sequence[str], brute: str) -> Problem | None:
        public = len(candidate.public_inputs)
        told = await self._oracle(candidate.statement, candidate.public_inputs)
        inputs = candidate.public_inputs + candidate.inputs
        for i, (given, run) in enumerate(zip(inputs, await self._runs(brute, inputs), strict=True)):
            if run.ending is not Ending.FINISHED:
                if i >= public and _out_of_time(run):
                    continue  # infeasible by brute force: no disagreement
                return Problem(
                    "brute force", _case(given, out[i], f"it ends with: {run.stderr.strip()[-200:] or run.ending}")
                )
            if same_output(run.stdout, out[i]):
                continue
            word = told[i] if told and i < public else await self._word(candidate.statement, given)
            if word is not None and same_output(word, out[i]):
                return Problem("brute force", _case(given, out[i], run.stdout))
            kind = "reference" if word is not None and same_output(word, run.stdout) else "statement"
            return Problem(kind, _case(given, run.stdout, out[i]))
        return None

    async def _word(self, statement: str, given: str) -> str | None:
        """The oracle's word on one case, if it is short enough to be worked out."""
        if len(given) > SHOWN:
            return None
        told = await self._oracle(statement, [given])
        return told[0] if told else None

    async def _oracle(self, statement: str, inputs: Sequence[str]) -> tuple[str, ...] | None:
        """Outputs from the statement alone, worked out or by a program of the oracle's own; None if unreadable."""
        text = await self._ask("oracle", self.wording.oracle(statement, inputs))
        try:
            return outputs(text, len(inputs))
        except Unreadable:
            program = last_code(text)
        runs = await self._runs(program, inputs) if program else []
        return tuple(run.stdout for run in runs) if runs and all(r.ending is Ending.FINISHED for r in runs) else None

    # ---------------------------------------------------------------- repairs

    async def _repaired(self, candidate: Candidate, problem: Problem) -> Candidate:
        reference, statement = candidate.mutation.reference, candidate.statement
        if problem.kind == "reference":
            messages = self.wording.repair_reference(statement, reference, problem.counterexample)
            program = last_code(await self._ask("proposer", messages)) or reference
            return replace(candidate, mutation=replace(candidate.mutation, reference=program))
        text = await self._ask("proposer", self.wording.repair_statement(statement, reference, problem.counterexample))
        try:
            return replace(candidate, statement=read_statement(text))
        except Unreadable:
            return candidate  # the attempt is spent all the same

    async def _repaired_brute_force(self, candidate: Candidate, brute: str, problem: Problem) -> str:
        messages = self.wording.repair_brute_force(candidate.statement, brute, problem.counterexample)
        return await self._program("brute_force", messages) or brute

    # ---------------------------------------------------------------- runs and calls

    async def _stable(self, candidate: Candidate, out: Sequence[str]) -> bool:
        again = await self._runs(candidate.mutation.reference, candidate.public_inputs + candidate.inputs)
        return [run.stdout for run in again] == list(out)

    async def _solves(self, program: str, done: Validation) -> bool:
        public, hidden = done.tests()
        return (await asyncio.to_thread(self.judge.judge, program, public + hidden)).passed

    async def _runs(self, program: str, inputs: Sequence[str]) -> list[RunResult]:
        return await asyncio.to_thread(self.judge.outputs, program, inputs)

    async def _program(self, role: str, messages: list[Message]) -> str:
        return last_code(await self._ask(role, messages)) or ""

    async def _ask(self, role: str, messages: list[Message]) -> str:
        key = (*self.key, role, len(self.repairs))
        call = Call(role, messages, key, self.config.max_tokens, self.config.temperature)
        return (await self.models.complete(call)).text


def _broken(runs: Sequence[RunResult], candidate: Candidate) -> Problem | None:
    """The first input on which the reference does not even end well."""
    for given, run in zip(candidate.public_inputs + candidate.inputs, runs, strict=True):
        if run.ending is not Ending.FINISHED:
            said = run.stderr.strip()[-200:] or str(run.ending)
            return Problem("reference", _case(given, "an output", f"it ends with: {said}"))
    return None


def _out_of_time(run: RunResult) -> bool:
    return run.ending in (Ending.TIMEOUT, Ending.KILLED)


def _case(given: str, expected: str, got: str) -> str:
    cut = [text if len(text) <= SHOWN else text[:SHOWN] + "..." for text in (given, expected, got)]
    return f"Input:\n{cut[0]}\nOthers get:\n{cut[1]}\nIt gives:\n{cut[2]}"
