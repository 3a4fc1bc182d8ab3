"""The search (BenchEvolver, section 3 and appendix B): saturated seeds, mutated in the solution, again and again.

All seeds take a step at a time together. Within a step they see the memory of the steps before, so what is asked does
not depend on who is quicker, and a killed run asks the same again: the log answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from selfplay.algos.benchevolver.acceptance import accept, saturated
from selfplay.algos.benchevolver.candidate import Attempt, Evolved, Reason
from selfplay.algos.benchevolver.evolution_config import EvolutionConfig
from selfplay.algos.benchevolver.function_proposal import FunctionProposer
from selfplay.algos.benchevolver.measure import Measurement, Panel
from selfplay.algos.benchevolver.memory import GlobalMemory, LocalMemory
from selfplay.algos.benchevolver.models import BudgetSpent, CallFailed, Models
from selfplay.algos.benchevolver.program_proposal import ProgramProposer
from selfplay.algos.benchevolver.prompts import Full, Wording
from selfplay.algos.benchevolver.proposal import Key, Proposer, Rejected, Request, Sound
from selfplay.benchmarks import scicode
from selfplay.benchmarks.code_task import CodeTask
from selfplay.curriculum.contamination import Contamination
from selfplay.sandbox.judge.cases import AssertTest
from selfplay.sandbox.judge.judge import Judge, JudgeError

T = TypeVar("T")

NGRAM = 13  # words in a row, of the contamination check


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
        self.programs: Proposer = ProgramProposer(models, judge, self.wording, config)
        self.functions: Proposer = FunctionProposer(models, judge, self.wording, config)
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
        if any(isinstance(test, AssertTest) and test.target is None for test in lineage.seed.hidden):
            # Published apart, and usually not at hand: what the reference gives is what is expected.
            seed = lineage.seed
            tests = await asyncio.to_thread(scicode.with_targets, self.judge, seed.reference, seed.hidden)
            lineage.seed = replace(seed, hidden=tuple(tests))
        seed = lineage.seed
        if not seed.tests:
            lineage.unsound = "it has no tests"
            return
        if seed.function and self.config.proposer == "problem_centric":
            lineage.unsound = "problem_centric takes programs that read standard input"
            return
        try:
            first, second = [
                await asyncio.to_thread(
                    self.judge.judge, seed.reference, seed.tests, unordered=seed.unordered, stop=False
                )
                for _ in range(2)
            ]
        except JudgeError as error:
            lineage.unsound = f"a test is broken: {error}"
            return
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

    async def _propose(self, lineage: Lineage, attempt: Attempt, key: Key) -> Evolved | None:
        proposer = self.functions if lineage.seed.function else self.programs
        request = Request(lineage.parent, *self._remembered(lineage), key, attempt, self.known.near)
        try:
            sound = await proposer.propose(request)
        except Rejected as error:
            attempt.reason, attempt.detail = error.reason, error.detail
            return None
        return await self._measured(lineage, attempt, sound, key)

    async def _measured(self, lineage: Lineage, attempt: Attempt, sound: Sound, key: Key) -> Evolved | None:
        label = "e" if self.number == 1 else f"r{self.number}e"
        task = replace(sound.task, task_id=f"{lineage.seed.task_id}.{label}{attempt.step}")
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
            mutation=sound.mutation,
            seed_accuracy=seed,
            accuracy=measured.accuracy,
            by_model=measured.by_model,
            generation=len(lineage.evolved) + 1,
        )

    # ---------------------------------------------------------------- parts

    def _remembered(self, lineage: Lineage) -> tuple[str, list[str]]:
        """What the proposer is told: memory as text, and the families of this lineage."""
        if not self.config.memory:
            return "nothing", []
        families = [attempt.family for attempt in lineage.memory.attempts if attempt.family]
        return f"{lineage.memory.summary()}\n{self.memory.summary()}", families


async def finish_all(work: Sequence[Awaitable[T]]) -> list[T]:
    """Like gather, but what is under way ends first: calls that were paid for reach the log. Then the first error."""
    done = await asyncio.gather(*work, return_exceptions=True)
    results = [one for one in done if not isinstance(one, BaseException)]
    for one in done:
        if isinstance(one, BaseException):
            raise one
    return results
