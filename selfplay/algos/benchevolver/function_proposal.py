"""Tasks for functions, as scientific ones are: mutate, write with assertions, check the statement (section 3.3).

There is nothing to triangulate by: what a computation should give is known from its code alone. So the statement is
put to solvers who see nothing else, and it is faithful if one of them passes at least half of the assertions.
"""

from __future__ import annotations

import ast
import asyncio
from dataclasses import replace

from selfplay.algos.benchevolver.candidate import Mutation, Reason
from selfplay.algos.benchevolver.models import Call
from selfplay.algos.benchevolver.proposal import Asking, Rejected, Request, Sound, same_program, unreadable
from selfplay.algos.benchevolver.replies import Unreadable, code_blocks, last_code, mutation, read_statement, section
from selfplay.benchmarks import scicode
from selfplay.benchmarks.code_task import CodeTask
from selfplay.sandbox.judge.cases import AssertTest
from selfplay.sandbox.judge.judge import Job, JudgeError


class FunctionProposer(Asking):
    """See `proposal.Proposer`."""

    async def propose(self, request: Request) -> Sound:
        """One candidate, validated. Raises Rejected and what a call raises."""
        parent, attempt = request.parent, request.attempt
        asked = self.wording.mutate_function(parent.statement, parent.reference, request.memory, request.used)
        try:
            change = mutation(await self.ask(asked, (*request.key, "mutate")))
            name, header, setup, change = _taken_apart(change)
        except Unreadable as error:
            raise unreadable(error, Reason.NO_CODE) from error
        attempt.family, attempt.idea = change.family, change.idea
        if same_program(change.reference, parent.reference):
            raise Rejected(Reason.UNCHANGED)
        try:
            text = await self.ask(self.wording.write_function(change, header), (*request.key, "write"))
            statement, sources = read_statement(text), code_blocks(section(text, "tests"))
        except Unreadable as error:
            raise unreadable(error, Reason.NO_STATEMENT) from error
        if request.near(statement):
            raise Rejected(Reason.DUPLICATE)
        tests = [AssertTest(name, source, setup) for source in dict.fromkeys(sources)]
        task = await self._with_targets(CodeTask("", statement, (), tuple(tests), change.reference, name, header))
        if await self._passes(_alias(parent, name), task):
            raise Rejected(Reason.PARENT_SOLVES)
        return Sound(change, await self._faithful(task, request))

    async def _with_targets(self, task: CodeTask) -> CodeTask:
        """The task with what its reference gives, which has to be the same twice and pass its own assertions."""
        first, second = [
            await asyncio.to_thread(scicode.with_targets, self.judge, task.reference, task.hidden) for _ in range(2)
        ]
        first, second = ([test for test in tests if test.target is not None] for tests in (first, second))
        if len(first) < self.config.min_hidden:
            raise Rejected(Reason.NO_TESTS, f"{len(task.hidden)} written, {len(first)} with a target")
        if first != second:
            raise Rejected(Reason.UNSTABLE)
        task = replace(task, hidden=tuple(first), source={"setup": first[0].setup})
        if not await self._passes(task.reference, task):
            raise Rejected(Reason.REFERENCE_FAILS)
        return task

    async def _passes(self, program: str, task: CodeTask) -> bool:
        try:
            return (await asyncio.to_thread(self.judge.judge, program, task.tests)).passed
        except JudgeError as error:
            raise Rejected(Reason.NO_TESTS, f"a test is broken: {error}") from error

    async def _faithful(self, task: CodeTask, request: Request) -> CodeTask:
        """The task, its statement revised until a solver who sees nothing else passes enough. Raises Rejected."""
        config = self.config.validation
        while True:
            best, case = await self._best_solution(task, request)
            if best >= config.faithful:
                return task
            if len(request.attempt.repairs) >= config.repairs:
                raise Rejected(Reason.UNFAITHFUL, f"best pass rate {best:.2f}")
            request.attempt.repairs.append("statement")
            asked = self.wording.repair_statement(task.statement, task.reference, case)
            try:
                text = await self.ask(asked, (*request.key, "revise", len(request.attempt.repairs)))
                task = replace(task, statement=read_statement(text))
            except Unreadable:
                continue  # the attempt is spent all the same

    async def _best_solution(self, task: CodeTask, request: Request) -> tuple[float, str]:
        """The best pass rate of solutions from the statement alone, and a case on which that one fails."""
        config = self.config.validation
        asked = self.wording.solve_function(task.statement, task.starter_code, self.judge.config.wall_s)
        revision = len(request.attempt.repairs)
        calls = [
            Call("brute_force", asked, (*request.key, "faithful", revision, i), config.max_tokens, config.temperature)
            for i in range(config.solutions)
        ]
        replies = await asyncio.gather(*[self.models.complete(call) for call in calls])
        jobs = [Job(last_code(reply.text) or "", task.tests) for reply in replies]
        verdicts = await asyncio.to_thread(self.judge.judge_all, jobs, stop=False)
        shares = [sum(r.outcome == "OK" for r in verdict.results) / len(verdict.results) for verdict in verdicts]
        place = max(range(len(shares)), key=lambda i: shares[i])
        failure = verdicts[place].first_failure
        if failure is None:
            return 1.0, ""
        test, result = task.tests[failure], verdicts[place].results[failure]
        source = test.source if isinstance(test, AssertTest) else ""
        return shares[place], f"Test:\n{source}\nOthers get: {result.outcome} {result.detail}"


def _taken_apart(change: Mutation) -> tuple[str, str, str, Mutation]:
    """Name and header of the last function of a program, its imports, and the mutation with the imports first.

    Raises Unreadable for a program without a function.
    """
    try:
        tree = ast.parse(change.reference)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise Unreadable("no code that can be read") from error
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if not functions:
        raise Unreadable("no function")
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    setup = "\n".join(map(ast.unparse, imports))
    rest = "\n\n".join(ast.unparse(node) for node in tree.body if node not in imports)
    return functions[-1].name, header_of(functions[-1]), setup, replace(change, reference=f"{setup}\n\n{rest}")


def header_of(function: ast.FunctionDef) -> str:
    """A function's signature, with its docstring if it has one."""
    document = ast.get_docstring(function, clean=False) is not None
    shown = ast.FunctionDef(
        name=function.name,
        args=function.args,
        body=[function.body[0] if document else ast.Pass()],
        decorator_list=[],
        returns=function.returns,
    )
    text = ast.unparse(ast.fix_missing_locations(shown))
    return text if document else text.removesuffix("pass").rstrip()


def _alias(parent: CodeTask, name: str) -> str:
    """The parent's program under the new function's name."""
    if parent.function == name:
        return parent.reference
    found = f"{name} = globals().get({parent.function!r}) or getattr(Solution(), {parent.function!r})"
    return f"{parent.reference}\n{found}"
