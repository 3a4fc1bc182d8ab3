"""How hard a task is: what share of a panel's attempts passes every hidden test (BenchEvolver, section 3.1)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from selfplay.algos.benchevolver import prompts
from selfplay.algos.benchevolver.models import Call, CallFailed, Models
from selfplay.algos.benchevolver.replies import last_code
from selfplay.benchmarks.code_task import CodeTask
from selfplay.sandbox.judge.cases import StdioTest
from selfplay.sandbox.judge.judge import Job, Judge


@dataclass
class PanelConfig:
    """The targets' attempts. Their roles are `target` and, of further models, `target_2`, `target_3`, ..."""

    attempts: int = 5  # k, of every model
    max_tokens: int = 8192
    temperature: float = 1.0


@dataclass(frozen=True)
class Measurement:
    """`accuracy` is the mean over models and attempts.

    `missing` attempts had no answer. They are in no accuracy, and a measurement with any is none: an endpoint that is
    down must not make tasks look hard.
    """

    by_model: dict[str, float]
    errors: list[str] = field(default_factory=list)  # how failed attempts ended, most frequent first
    missing: int = 0

    @property
    def accuracy(self) -> float:
        return sum(self.by_model.values()) / len(self.by_model)


class Panel:
    """Puts tasks to the targets."""

    def __init__(self, models: Models, judge: Judge, config: PanelConfig, roles: Sequence[str] = ("target",)) -> None:
        self.models, self.judge, self.config, self.roles = models, judge, config, tuple(roles)

    async def measure(self, task: CodeTask, key: tuple[str | int, ...]) -> Measurement:
        """`key` sets this measurement's attempts apart. Raises BudgetSpent, EndpointRefused or NotInLog."""
        asked = [(role, i) for role in self.roles for i in range(self.config.attempts)]
        replies = await asyncio.gather(*[self._attempt(task, role, (*key, i)) for role, i in asked])
        programs = [last_code(text) or "" if text is not None else "" for text in replies]
        jobs = [Job(program, task.tests, task.unordered) for program in programs]
        verdicts = await asyncio.to_thread(self.judge.judge_all, jobs)
        right: Counter[str] = Counter()
        errors: Counter[str] = Counter()
        gone = Counter(role for (role, _), text in zip(asked, replies, strict=True) if text is None)
        for (role, _), text, verdict in zip(asked, replies, verdicts, strict=True):
            right[role] += verdict.passed
            if text is not None and not verdict.passed:
                errors[str(verdict.outcome) if last_code(text) else "no code"] += 1
        return Measurement(
            {role: right[role] / max(1, self.config.attempts - gone[role]) for role in self.roles},
            [error for error, _ in errors.most_common()],
            gone.total(),
        )

    async def _attempt(self, task: CodeTask, role: str, key: tuple[str | int, ...]) -> str | None:
        examples = [(test.stdin, test.stdout) for test in task.public if isinstance(test, StdioTest)]
        messages = prompts.solve(task.statement, examples, self.judge.config.wall_s)
        call = Call(role, messages, (*key, role), self.config.max_tokens, self.config.temperature)
        try:
            return (await self.models.complete(call)).text
        except CallFailed:
            return None
