"""The search (BenchEvolver, section 3 and appendix B): saturated seeds, mutated in the solution, again and again.

All seeds take a step at a time together. Within a step they see the memory of the steps before, so what is asked does
not depend on who is quicker, and a killed run asks the same again: the log answers.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from selfplay.algos.benchevolver.acceptance import AcceptanceConfig, accept, saturated
from selfplay.algos.benchevolver.attempts import CUT_OFF
from selfplay.algos.benchevolver.candidate import Attempt, Candidate, Evolved, Mutation, Reason
from selfplay.algos.benchevolver.measure import Measurement, Panel, PanelConfig
from selfplay.algos.benchevolver.memory import GlobalMemory, LocalMemory
from selfplay.algos.benchevolver.models import BudgetSpent, Call, CallFailed, Models
from selfplay.algos.benchevolver.prompts import Full, Wording
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
from selfplay.algos.benchevolver.validation import Triangulation, Validation, ValidationConfig
from selfplay.benchmarks.code_task import CodeTask
from selfplay.curriculum.contamination import Contamination
from selfplay.engine.episode import Message
from selfplay.sandbox.judge.judge import Judge
from selfplay.sandbox.python.result import Ending, RunResult

T = TypeVar("T")

NGRAM = 13  # words in a row, of the contamination check
MAX_INPUT = 1 << 20  # characters of one test input


@dataclass
class EvolutionConfig:
    """One run of the search."""

    steps: int = 10  # b: evolution steps of a seed, at most
    accepted: int = 2  # tasks of a seed, at most
    saturation: float = 1.0  # accuracy from which a seed is evolved
    proposer: str = "solution_centric"  # solution_centric | problem_centric (ablation: the statement first)
    memory: bool = True  # false: every step is the first (ablation)
    duplicate: float = 0.8  # MinHash similarity of two statements above which the later one is a reskin
    min_public: int = 1
    min_hidden: int = 5
    max_tokens: int = 8192
    temperature: float = 1.0
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    panel: PanelConfig = field(default_factory=PanelConfig)
    acceptance: AcceptanceConfig = field(default_factory=AcceptanceConfig)

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value that cannot work."""
        if self.proposer not in ("solution_centric", "problem_centric"):
            raise ValueError(f"proposer: {self.proposer!r} is not allowed; it is solution_centric or problem_centric")
        for key in ("steps", "accepted", "min_public", "min_hidden", "max_tokens"):
            if getattr(self, key) <= 0:
                raise ValueError(f"{key}: {getattr(self, key)} is not allowed; it must be above 0")
        if not 0.0 < self.duplicate <= 1.0:
            raise ValueError(f"duplicate: {self.duplicate} is not allowed; it lies in (0, 1]")
        if not 0.0 < self.saturation <= 1.0:
            raise ValueError(f"saturation: {self.saturation} is not allowed; it lies in (0, 1]")


@dataclass
class Lineage:
    """A seed and what became of it."""

    seed: CodeTask
    memory: LocalMemory
    measured: Measurement | None = None
    unsound: str = ""  # why the seed cannot be evolved, if it cannot
    evolved: list[Evolved] = field(default_factory=list)

    @property
    def parent(self) -> CodeTask:
        return self.evolved[-1].task if self.evolved else self.seed

    @property
    def parent_accuracy(self) -> float:
        return self.evolved[-1].accuracy if self.evolved else self.memory.seed_accuracy


class Evolution:
    """Seeds in, evolved tasks out. `on_step(step, lineages)` is called after every step."""

    def __init__(
        self,
        models: Models,
        judge: Judge,
        config: EvolutionConfig,
        roles: Sequence[str] = ("target",),
        on_step: Callable[[int, Sequence[Lineage]], None] | None = None,
        wording: Wording | None = None,
        number: int = 1,
    ) -> None:
        self.models, self.judge, self.config = models, judge, config
        self.wording: Wording = wording or Full()
        self.number = number  # of the round: the same seed is asked about again in the next one
        self.panel = Panel(models, judge, self.wording, config.panel, roles)
        self.on_step = on_step
        self.memory = GlobalMemory()
        self.message = ""  # why it ended early, if it did

    async def run(self, seeds: Sequence[CodeTask]) -> list[Lineage]:
        """Measure the seeds and evolve the saturated ones. A spent budget ends it early, with what there is."""
        lineages = [Lineage(seed, LocalMemory(seed.task_id, 0.0)) for seed in seeds]
        self.known = Contamination([seed.statement for seed in seeds], NGRAM, self.config.duplicate)
        try:
            await finish_all([self._measure_seed(lineage) for lineage in lineages])
            for step in range(1, self.config.steps + 1):
                active = [lineage for lineage in lineages if self._active(lineage)]
                if not active:
                    break
                found = await finish_all([self._step(lineage, step) for lineage in active])
                done = [(lineage, one) for lineage, one in zip(active, found, strict=True) if one is not None]
                self._remember(done)
                if self.on_step is not None:
                    self.on_step(step, lineages)
                if len(done) < len(active):
                    self.models.budget.check()
        except BudgetSpent as error:
            self.message = f"stopped: {error}"
        return lineages

    def _active(self, lineage: Lineage) -> bool:
        ready = not lineage.unsound and lineage.measured is not None
        return (
            ready
            and saturated(lineage.memory.seed_accuracy, self.config.saturation)
            and (len(lineage.evolved) < self.config.accepted)
        )

    def _remember(self, found: Sequence[tuple[Lineage, tuple[Attempt, Evolved | None]]]) -> None:
        """Take the step's results in the order of the seeds; of two near-equal new tasks the first one stays."""
        for lineage, (attempt, evolved) in found:
            if evolved is not None and self.known.near(evolved.task.statement):
                attempt.reason, evolved = Reason.DUPLICATE, None
            if evolved is not None and self._family_repeated(lineage, attempt, evolved):
                attempt.reason, evolved = Reason.FAMILY_REPEATED, None
            if evolved is not None:
                lineage.evolved.append(evolved)
                self.known.add(evolved.task.statement)
            lineage.memory.attempts.append(attempt)
            self.memory.add(attempt)

    def _family_repeated(self, lineage: Lineage, attempt: Attempt, evolved: Evolved) -> bool:
        """Whether another lineage has had the family accepted meanwhile, in this same step."""
        known = self.memory.known_elsewhere(attempt.family, lineage.seed.task_id)
        accuracies = evolved.accuracy, lineage.memory.seed_accuracy, lineage.parent_accuracy
        return accept(*accuracies, known, self.config.acceptance) is Reason.FAMILY_REPEATED

    # ---------------------------------------------------------------- one seed

    async def _measure_seed(self, lineage: Lineage) -> None:
        seed = lineage.seed
        if not seed.tests:
            lineage.unsound = "it has no tests"
            return
        first, second = [
            await asyncio.to_thread(self.judge.judge, seed.reference, seed.tests, unordered=seed.unordered, stop=False)
            for _ in range(2)
        ]
        if not first.passed or not second.passed:
            stable = [r.outcome for r in first.results] == [r.outcome for r in second.results]
            bad = first if not first.passed else second
            kind = "its reference fails its own tests" if stable else "its reference is not deterministic"
            lineage.unsound = f"{kind}: {bad.outcome} on test {bad.first_failure}"
            return
        measured = await self.panel.measure(seed, (self.number, seed.task_id, "seed"))
        if measured.missing:
            lineage.unsound = f"{measured.missing} attempts had no answer"
            return
        lineage.measured, lineage.memory.seed_accuracy = measured, measured.accuracy

    async def _step(self, lineage: Lineage, step: int) -> tuple[Attempt, Evolved | None] | None:
        """One evolution step: mutate, write, validate, measure, decide. None if the budget ran out within it."""
        attempt = Attempt(lineage.seed.task_id, lineage.parent.task_id, step)
        key = (self.number, lineage.seed.task_id, step)
        try:
            evolved = await self._propose(lineage, attempt, key)
        except CallFailed as error:
            attempt.reason, attempt.detail, evolved = Reason.NO_CALL, str(error), None
        except BudgetSpent:
            return None
        return attempt, evolved

    async def _propose(self, lineage: Lineage, attempt: Attempt, key: tuple[str | int, ...]) -> Evolved | None:
        def reject(reason: Reason, detail: str = "") -> None:
            attempt.reason, attempt.detail = reason, detail

        parent, problem_first = lineage.parent, self.config.proposer == "problem_centric"
        propose = self._from_a_problem if problem_first else self._from_a_program
        try:
            change, statement = await propose(lineage, key)
        except Unreadable as error:
            reject(Reason.CUT_OFF if str(error) == CUT_OFF else Reason.NO_CODE, str(error))
            return None
        attempt.family, attempt.idea = change.family, change.idea
        if same_program(change.reference, parent.reference):
            reject(Reason.UNCHANGED)
            return None
        try:
            if problem_first:
                asked = self.wording.inputs(statement, change.reference)
                inputs = read_inputs(await self._ask(asked, (*key, "inputs")))
            else:
                statement, inputs = written(await self._ask(self.wording.write(change), (*key, "write")))
        except Unreadable as error:
            reject(Reason.CUT_OFF if str(error) == CUT_OFF else Reason.NO_STATEMENT, str(error))
            return None
        if self.known.near(statement):
            reject(Reason.DUPLICATE)
            return None
        candidate = await self._candidate(change, statement, inputs)
        if len(candidate.public_inputs) < self.config.min_public or len(candidate.inputs) < self.config.min_hidden:
            reject(Reason.NO_TESTS, f"{len(candidate.public_inputs)} public, {len(candidate.inputs)} hidden")
            return None
        check = Triangulation(self.models, self.judge, self.wording, self.config.validation, key)
        done = await check.validate(candidate, parent)
        attempt.repairs = list(done.repairs)
        if done.reason is not None:
            reject(done.reason, done.detail)
            return None
        return await self._measured(lineage, attempt, done, key)

    async def _measured(
        self, lineage: Lineage, attempt: Attempt, done: Validation, key: tuple[str | int, ...]
    ) -> Evolved | None:
        public, hidden = done.tests()
        task = CodeTask(
            task_id=f"{lineage.seed.task_id}.{'e' if self.number == 1 else f'r{self.number}e'}{attempt.step}",
            statement=done.candidate.statement,
            public=public,
            hidden=hidden,
            reference=done.candidate.mutation.reference,
        )
        measured = await self.panel.measure(task, (*key, "measure"))
        if measured.missing:
            attempt.reason, attempt.detail = Reason.NO_CALL, f"{measured.missing} attempts had no answer"
            return None
        attempt.accuracy, attempt.errors = measured.accuracy, measured.errors[:3]
        seed = lineage.memory.seed_accuracy
        known = self.memory.known_elsewhere(attempt.family, lineage.seed.task_id)
        reason = accept(measured.accuracy, seed, lineage.parent_accuracy, known, self.config.acceptance)
        attempt.reason = reason
        if reason is not None:
            return None
        return Evolved(
            task=replace(task, difficulty=f"{1 - measured.accuracy:.3f}"),
            seed_id=lineage.seed.task_id,
            parent_id=lineage.parent.task_id,
            mutation=done.candidate.mutation,
            seed_accuracy=seed,
            accuracy=measured.accuracy,
            by_model=measured.by_model,
            generation=len(lineage.evolved) + 1,
        )

    # ---------------------------------------------------------------- parts

    async def _from_a_program(self, lineage: Lineage, key: tuple[str | int, ...]) -> tuple[Mutation, str]:
        """C' first; its statement is written from it. Raises Unreadable."""
        parent = lineage.parent
        asked = self.wording.mutate(parent.statement, parent.reference, *self._remembered(lineage))
        return mutation(await self._ask(asked, (*key, "mutate"))), ""

    async def _from_a_problem(self, lineage: Lineage, key: tuple[str | int, ...]) -> tuple[Mutation, str]:
        """S' first; its program is written from it. Raises Unreadable."""
        asked = self.wording.problem_first(lineage.parent.statement, *self._remembered(lineage))
        text = await self._ask(asked, (*key, "problem"))
        statement, (family, idea, why) = read_statement(text), explanation(text)
        program = last_code(await self._ask(self.wording.reference(statement), (*key, "reference")))
        if program is None:
            raise Unreadable("no code")
        return Mutation(family, idea, why, program), statement

    def _remembered(self, lineage: Lineage) -> tuple[str, list[str]]:
        """What the proposer is told: memory as text, and the families of this lineage."""
        if not self.config.memory:
            return "nothing", []
        families = [attempt.family for attempt in lineage.memory.attempts if attempt.family]
        return f"{lineage.memory.summary()}\n{self.memory.summary()}", families

    async def _ask(self, messages: list[Message], key: tuple[str | int, ...]) -> str:
        call = Call("proposer", messages, key, self.config.max_tokens, self.config.temperature)
        reply = await self.models.complete(call)
        if not reply.finished:
            raise Unreadable(CUT_OFF)
        return reply.text

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


def same_program(first: str, second: str) -> bool:
    """Whether two programs differ in layout and comments only."""
    try:
        return ast.dump(ast.parse(first)) == ast.dump(ast.parse(second))
    except (SyntaxError, ValueError, RecursionError):
        return first.strip() == second.strip()


async def finish_all(work: Sequence[Awaitable[T]]) -> list[T]:
    """Like gather, but what is under way ends first: calls that were paid for reach the log. Then the first error."""
    done = await asyncio.gather(*work, return_exceptions=True)
    results = [one for one in done if not isinstance(one, BaseException)]
    for one in done:
        if isinstance(one, BaseException):
            raise one
    return results
