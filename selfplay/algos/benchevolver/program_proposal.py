"""Tasks for programs that read standard input: mutate, write, validate by triangulation (section 3.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from selfplay.algos.benchevolver.candidate import Candidate, Mutation, Reason
from selfplay.algos.benchevolver.proposal import Asking, Rejected, Request, Sound, same_program, unreadable
from selfplay.algos.benchevolver.replies import (
    Inputs,
    Unreadable,
    explanation,
    last_code,
    mutation,
    read_inputs,
    read_statement,
    written,
)
from selfplay.algos.benchevolver.validation import Triangulation
from selfplay.benchmarks.code_task import CodeTask
from selfplay.sandbox.python.result import Ending, RunResult

MAX_INPUT = 1 << 20  # characters of one test input


class ProgramProposer(Asking):
    """See `proposal.Proposer`."""

    async def propose(self, request: Request) -> Sound:
        """One candidate, validated. Raises Rejected and what a call raises."""
        attempt, problem_first = request.attempt, self.config.proposer == "problem_centric"
        propose = self._from_a_problem if problem_first else self._from_a_program
        try:
            change, statement = await propose(request)
        except Unreadable as error:
            raise unreadable(error, Reason.NO_CODE) from error
        attempt.family, attempt.idea = change.family, change.idea
        if same_program(change.reference, request.parent.reference):
            raise Rejected(Reason.UNCHANGED)
        try:
            if problem_first:
                asked = self.wording.inputs(statement, change.reference)
                inputs = read_inputs(await self.ask(asked, (*request.key, "inputs")))
            else:
                statement, inputs = written(await self.ask(self.wording.write(change), (*request.key, "write")))
        except Unreadable as error:
            raise unreadable(error, Reason.NO_STATEMENT) from error
        if request.near(statement):
            raise Rejected(Reason.DUPLICATE)
        candidate = await self._candidate(change, statement, inputs)
        if len(candidate.public_inputs) < self.config.min_public or len(candidate.inputs) < self.config.min_hidden:
            raise Rejected(Reason.NO_TESTS, f"{len(candidate.public_inputs)} public, {len(candidate.inputs)} hidden")
        check = Triangulation(self.models, self.judge, self.wording, self.config.validation, request.key)
        done = await check.validate(candidate, request.parent)
        attempt.repairs = list(done.repairs)
        if done.reason is not None:
            raise Rejected(done.reason, done.detail)
        public, hidden = done.tests()
        change = done.candidate.mutation
        task = CodeTask("", done.candidate.statement, public, hidden, change.reference)
        return Sound(change, task)

    async def _from_a_program(self, request: Request) -> tuple[Mutation, str]:
        """C' first; its statement is written from it. Raises Unreadable."""
        parent = request.parent
        asked = self.wording.mutate(parent.statement, parent.reference, request.memory, request.used)
        return mutation(await self.ask(asked, (*request.key, "mutate"))), ""

    async def _from_a_problem(self, request: Request) -> tuple[Mutation, str]:
        """S' first; its program is written from it. Raises Unreadable."""
        asked = self.wording.problem_first(request.parent.statement, request.memory, request.used)
        text = await self.ask(asked, (*request.key, "problem"))
        statement, (family, idea, why) = read_statement(text), explanation(text)
        program = last_code(await self.ask(self.wording.reference(statement), (*request.key, "reference")))
        if program is None:
            raise Unreadable("no code")
        return Mutation(family, idea, why, program), statement

    def _generate(self, programs: Sequence[str]) -> list[RunResult]:
        return [self.judge.output(program, "") for program in programs]

    async def _candidate(self, change: Mutation, statement: str, inputs: Inputs) -> Candidate:
        """Inputs as written and as generated, each once."""
        seen = set(inputs.public)
        hidden: dict[str, tuple[str, ...]] = {}
        for regime, given in inputs.hidden.items():
            made = await asyncio.to_thread(self._generate, inputs.generators[regime])
            fresh = [one for one in (*given, *(run.stdout for run in made if run.ending is Ending.FINISHED)) if one]
            hidden[regime] = tuple(one for one in dict.fromkeys(fresh) if one not in seen and len(one) <= MAX_INPUT)
            seen.update(hidden[regime])
        return Candidate(change, statement, tuple(dict.fromkeys(inputs.public)), hidden)
