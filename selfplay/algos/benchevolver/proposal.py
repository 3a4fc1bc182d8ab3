"""What every way to propose a task has in common: what it is asked for, and what it gives or refuses."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from selfplay.algos.benchevolver.attempts import CUT_OFF
from selfplay.algos.benchevolver.candidate import Attempt, Mutation, Reason
from selfplay.algos.benchevolver.evolution_config import EvolutionConfig
from selfplay.algos.benchevolver.models import Call, Models
from selfplay.algos.benchevolver.prompts import Wording
from selfplay.algos.benchevolver.replies import Unreadable
from selfplay.benchmarks.code_task import CodeTask
from selfplay.engine.episode import Message
from selfplay.sandbox.judge.judge import Judge

Key = tuple[str | int, ...]


class Rejected(Exception):
    """A candidate that will not become a task."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(str(reason))
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class Request:
    """A task to be mutated. `attempt` is told the family, the idea and the repairs as they become known."""

    parent: CodeTask
    memory: str
    used: Sequence[str]  # families of the lineage
    key: Key
    attempt: Attempt
    near: Callable[[str], bool]  # whether a statement is nearly one that there is


@dataclass(frozen=True)
class Sound:
    """A validated candidate: its task has no name yet."""

    mutation: Mutation
    task: CodeTask


class Proposer(Protocol):
    async def propose(self, request: Request) -> Sound:
        """Raises Rejected, CallFailed, or what ends the search (BudgetSpent, EndpointRefused, NotInLog)."""
        ...


class Asking:
    """The parts that proposers share."""

    def __init__(self, models: Models, judge: Judge, wording: Wording, config: EvolutionConfig) -> None:
        self.models, self.judge, self.wording, self.config = models, judge, wording, config

    async def ask(self, messages: list[Message], key: Key) -> str:
        """The proposer's reply. Raises Unreadable where it was cut off."""
        call = Call("proposer", messages, key, self.config.max_tokens, self.config.temperature)
        reply = await self.models.complete(call)
        if not reply.finished:
            raise Unreadable(CUT_OFF)
        return reply.text


def unreadable(error: Unreadable, reason: Reason) -> Rejected:
    """The rejection for a reply that lacks what was asked for."""
    return Rejected(Reason.CUT_OFF if str(error) == CUT_OFF else reason, str(error))


def same_program(first: str, second: str) -> bool:
    """Whether two programs differ in layout and comments only."""
    try:
        return ast.dump(ast.parse(first)) == ast.dump(ast.parse(second))
    except (SyntaxError, ValueError, RecursionError):
        return first.strip() == second.strip()
