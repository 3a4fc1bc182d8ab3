"""How hard a task is: what share of a panel's attempts passes every hidden test (BenchEvolver, section 3.1)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from selfplay.algos.benchevolver.attempts import Attempt, grade
from selfplay.algos.benchevolver.evolution_config import PanelConfig
from selfplay.algos.benchevolver.models import Call, CallFailed, Models, Reply
from selfplay.algos.benchevolver.prompts import Wording, asked
from selfplay.benchmarks.code_task import CodeTask
from selfplay.sandbox.judge.judge import Judge


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

    def __init__(
        self, models: Models, judge: Judge, wording: Wording, config: PanelConfig, roles: Sequence[str] = ("target",)
    ) -> None:
        self.models, self.judge, self.wording, self.config = models, judge, wording, config
        self.roles = tuple(roles)

    async def measure(self, task: CodeTask, key: tuple[str | int, ...]) -> Measurement:
        """`key` sets this measurement's attempts apart. Raises BudgetSpent, EndpointRefused or NotInLog."""
        draws = [(role, i) for role in self.roles for i in range(self.config.attempts)]
        replies = await asyncio.gather(*[self._attempt(task, role, (*key, i)) for role, i in draws])
        given = [(role, reply) for (role, _), reply in zip(draws, replies, strict=True) if reply is not None]
        attempts = [Attempt(task, reply.text, reply.finished) for _, reply in given]
        right: Counter[str] = Counter()
        errors: Counter[str] = Counter()
        gone = Counter(role for (role, _), reply in zip(draws, replies, strict=True) if reply is None)
        for (role, _), one in zip(given, await asyncio.to_thread(grade, self.judge, attempts), strict=True):
            right[role] += one.passed
            errors[one.outcome] += not one.passed
        return Measurement(
            {role: right[role] / max(1, self.config.attempts - gone[role]) for role in self.roles},
            [error for error, count in errors.most_common() if count],
            gone.total(),
        )

    async def _attempt(self, task: CodeTask, role: str, key: tuple[str | int, ...]) -> Reply | None:
        messages = asked(self.wording, task, self.judge.config.wall_s)
        call = Call(role, messages, (*key, role), self.config.max_tokens, self.config.temperature)
        try:
            return await self.models.complete(call)
        except CallFailed:
            return None
