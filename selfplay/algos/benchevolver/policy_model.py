"""The policy itself as one of the search's models: evolver and target are then the same weights."""

from __future__ import annotations

import time
from collections.abc import Callable

from selfplay.algos.benchevolver.models import Call, CallFailed, Reply
from selfplay.engine.episode import Sampler


class PolicyModel:
    """Answers by the session's sampler. `name` tells checkpoints apart: the log must not answer for another one."""

    def __init__(self, name: str, sampler: Sampler, max_prompt: int, on_reply: Callable[[], None]) -> None:
        self.name, self.sampler, self.max_prompt, self.on_reply = name, sampler, max_prompt, on_reply

    async def complete(self, call: Call) -> Reply:
        """Raises CallFailed for a prompt that is too long."""
        prompt, started = self.sampler.render(call.messages), time.monotonic()
        if len(prompt) > self.max_prompt:
            raise CallFailed(f"{self.name}: a prompt of {len(prompt)} tokens, of {self.max_prompt}")
        sample = await self.sampler.sample(
            prompt, max_tokens=call.max_tokens, key=(call.role, *call.key), temperature=call.temperature
        )
        self.on_reply()
        seconds = round(time.monotonic() - started, 3)
        return Reply(sample.text, len(prompt), len(sample.token_ids), seconds, sample.finished)
