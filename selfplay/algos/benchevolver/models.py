"""Whom the evolution asks: models by role, every answer kept, within a budget.

A run's answers are its journal. What was asked once is answered from the log: a killed run continues from it and loses
at most the calls in flight, and a finished one can be gone through again without any model.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from selfplay.backbones.cache import content_hash
from selfplay.engine.episode import Message
from selfplay.runs.append_log import AppendLog

RETRIED = (408, 409, 425, 429)  # and everything from 500 on
LONGEST_WAIT_S = 60.0


class CallFailed(RuntimeError):
    """A call brought no answer after all its attempts; says what the last one met."""


class EndpointRefused(RuntimeError):
    """An endpoint that no retry will change: a wrong key, model or request. Ends the run."""

    status = 0


class BudgetSpent(RuntimeError):
    """The limit on calls, tokens or cost is reached; nothing new is asked."""


class NotInLog(RuntimeError):
    """A replay met a call that the log does not hold."""


@dataclass(frozen=True)
class Call:
    """A question. `key` sets repeated ones apart, as attempts at one task."""

    role: str
    messages: Sequence[Message]
    key: tuple[str | int, ...]
    max_tokens: int = 4096
    temperature: float = 1.0
    top_p: float = 1.0


@dataclass(frozen=True)
class Reply:
    """An answer; `finished` is False where it was cut off at `max_tokens`."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    finished: bool = True


class ChatModel(Protocol):
    """A model that answers. Raises CallFailed or EndpointRefused."""

    name: str  # of the weights: another checkpoint of a policy has another

    async def complete(self, call: Call) -> Reply: ...


class Recorded:
    """Stands in for a model whose answers are all in the log: a replay."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def complete(self, call: Call) -> Reply:
        raise NotInLog(f"the log has no answer of {self.name!r} to {call.role} {'/'.join(map(str, call.key))}")


# ---------------------------------------------------------------- an endpoint


@dataclass
class EndpointConfig:
    """An OpenAI-compatible endpoint."""

    base_url: str = "http://127.0.0.1:8000/v1"
    model: str = ""
    key_variable: str = "OPENAI_API_KEY"  # the environment variable that holds the key; it is never written anywhere
    timeout_s: float = 600.0  # of a whole call, however slowly it drips
    attempts: int = 5
    backoff_s: float = 1.0  # doubled for each attempt, with jitter
    price_in: float = 0.0  # for a million tokens, in the budget's currency
    price_out: float = 0.0

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value that cannot work; what may be a secret is not repeated."""
        if "@" in self.base_url:
            raise ValueError("base_url: no name and password in it, please; the key is in the variable of key_variable")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.key_variable):
            raise ValueError("key_variable: it is the name of an environment variable, not the key itself")
        if not self.base_url.startswith(("http://", "https://")):
            raise ValueError(f"base_url: {self.base_url!r} is not allowed; it starts with http:// or https://")
        if not self.model:
            raise ValueError("model: '' is not allowed; it is what the endpoint calls the model")
        for key in ("timeout_s", "attempts"):
            if getattr(self, key) <= 0:
                raise ValueError(f"{key}: {getattr(self, key)} is not allowed; it must be above 0")


class Endpoint:
    """A model behind HTTP: bounded time and a bounded number of attempts for every call."""

    def __init__(self, config: EndpointConfig) -> None:
        from openai import AsyncOpenAI

        self.config, self.name = config, config.model
        self._key = os.environ.get(config.key_variable, "").strip()
        key = self._key or "none"  # local servers want none, the client wants something
        self._client = AsyncOpenAI(base_url=config.base_url, api_key=key, timeout=config.timeout_s, max_retries=0)

    async def complete(self, call: Call) -> Reply:
        """Ask until there is a whole answer. Raises CallFailed after `attempts`, EndpointRefused at once."""
        problem = ""
        for attempt in range(self.config.attempts):
            if attempt:
                await asyncio.sleep(self._wait_s(attempt, call))
            started = time.monotonic()
            try:
                answer = await asyncio.wait_for(self._ask(call), self.config.timeout_s)
            except EndpointRefused:
                raise
            except TimeoutError:
                problem = f"no answer within {self.config.timeout_s:g} s"
            except Exception as error:  # the client's own, httpx's, and those of broken bodies
                problem = self._explain(error)
            else:
                return Reply(*answer[:3], seconds=round(time.monotonic() - started, 3), finished=answer[3])
        raise CallFailed(f"{self.name}: {problem} ({self.config.attempts} attempts)")

    async def _ask(self, call: Call) -> tuple[str, int, int, bool]:
        messages: Any = list(call.messages)
        done = await self._client.chat.completions.create(
            model=self.config.model,
            messages=messages,
            max_tokens=call.max_tokens,
            temperature=call.temperature,
            top_p=call.top_p,
        )
        choice, usage = done.choices[0], done.usage
        if not isinstance(choice.message.content, str):
            raise ValueError("the answer has no text")
        prompt = int(usage.prompt_tokens) if usage else 0
        completion = int(usage.completion_tokens) if usage else 0
        return choice.message.content, prompt, completion, choice.finish_reason != "length"

    async def close(self) -> None:
        await self._client.close()

    def _explain(self, error: Exception) -> str:
        """What to say of an attempt that failed; raises EndpointRefused where another would fail just so."""
        import openai

        if isinstance(error, openai.APIStatusError):
            status = error.status_code
            if status < 500 and status not in RETRIED:
                said = self._shown(" ".join(str(error.message).split()))[:160]
                refused = EndpointRefused(f"{self.config.base_url} refuses {self.name!r}: {status}: {said}")
                refused.status = status
                raise refused from None  # its traceback would show what the server said, the key included
            return f"status {status}"
        return f"{type(error).__name__}: {self._shown(str(error))[:120]}"

    def _shown(self, text: str) -> str:
        """`text` for people and logs: some servers repeat the key that they refuse."""
        return text.replace(self._key, "<the key>") if self._key else text

    def _wait_s(self, attempt: int, call: Call) -> float:
        jitter = random.Random(f"{call.key}{attempt}").uniform(0.5, 1.5)  # so that refused calls do not return as one
        return min(LONGEST_WAIT_S, self.config.backoff_s * 2 ** (attempt - 1) * jitter)


# ---------------------------------------------------------------- budget and log


@dataclass
class BudgetConfig:
    """What a run may spend on answers; 0: no limit."""

    calls: int = 0
    tokens: int = 0  # of prompts and answers
    cost: float = 0.0


class Budget:
    """Counts what was spent, by earlier launches too."""

    def __init__(self, config: BudgetConfig) -> None:
        self.config = config
        self.calls = self.tokens = 0
        self.cost = 0.0

    def count(self, reply: Reply, price_in: float, price_out: float) -> None:
        self.calls += 1
        self.tokens += reply.prompt_tokens + reply.completion_tokens
        self.cost += (reply.prompt_tokens * price_in + reply.completion_tokens * price_out) / 1e6

    def check(self) -> None:
        """Raises BudgetSpent."""
        for name in ("calls", "tokens", "cost"):
            limit, spent = getattr(self.config, name), getattr(self, name)
            if 0 < limit <= spent:
                raise BudgetSpent(f"the budget of {limit:g} {name} is spent")


class CallLog:
    """Every call with its reply, by content."""

    def __init__(self, path: Path) -> None:
        """Raises ValueError, naming the file, for one that holds anything but calls."""
        self._log = AppendLog(path)
        try:
            self._replies = {record["id"]: Reply(**record["reply"]) for record in self._log.records}
            self.spent = [(record["model"], Reply(**record["reply"])) for record in self._log.records]
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}: a record is no call with its reply: {error}") from error
        self._log.records = []

    def get(self, identity: str) -> Reply | None:
        return self._replies.get(identity)

    def put(self, identity: str, model: str, call: Call, reply: Reply) -> None:
        self._replies[identity] = reply
        self._log.append({"id": identity, "model": model, "call": asdict(call), "reply": asdict(reply)})

    def __len__(self) -> int:
        return len(self._replies)

    def close(self) -> None:
        self._log.close()


class Models:
    """The models of a run by role, behind its log, its budget and its limit on calls at once."""

    def __init__(
        self,
        roles: Mapping[str, ChatModel],
        log: CallLog,
        budget: Budget,
        at_once: int = 16,
        prices: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        self.roles, self.log, self.budget = roles, log, budget
        self.prices = dict(prices or {})
        self.asked = self.answered_from_log = self.tokens = 0
        self._gate = asyncio.Semaphore(at_once)
        for name, reply in log.spent:
            budget.count(reply, *self.prices.get(name, (0.0, 0.0)))
        log.spent = []  # counted once, however many models share the log and the budget

    async def complete(self, call: Call) -> Reply:
        """The answer to a call of `call.role`. Raises CallFailed, EndpointRefused, BudgetSpent or NotInLog."""
        chosen = self.roles[call.role]
        identity = content_hash({"model": chosen.name, **_content(call)})
        known = self.log.get(identity)
        if known is not None:
            self.answered_from_log += 1
            self.tokens += known.prompt_tokens + known.completion_tokens
            return known
        async with self._gate:
            self.budget.check()
            reply = await chosen.complete(call)
        self.asked += 1
        self.tokens += reply.prompt_tokens + reply.completion_tokens
        self.budget.count(reply, *self.prices.get(chosen.name, (0.0, 0.0)))
        self.log.put(identity, chosen.name, call, reply)
        return reply


def _content(call: Call) -> dict[str, Any]:
    return dict(json.loads(json.dumps(asdict(call))))
