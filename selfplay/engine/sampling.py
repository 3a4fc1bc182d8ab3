"""`Sampler` over verl's clients: what an episode, and a driver's own work, sample with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar
from uuid import uuid4

from selfplay.engine.episode import Message, Sample, Sampler, seed_of
from selfplay.engine.errors import EngineError

T = TypeVar("T")


class Texts:
    """The part of a sampler that is its tokenizer's."""

    tokenizer: Any

    def render(self, messages: Sequence[Message]) -> list[int]:
        return render(self.tokenizer, messages)

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(token_ids), skip_special_tokens=True))


class ClientSampler(Texts):
    """Samples from `client`, and from `client.frozen` if there is one; see `selfplay.engine.episode.Sampler`.

    `defaults` are vLLM's sampling parameters. The draws follow from `seed_key` and each call's own key; without a
    `seed_key` they are the server's.
    """

    def __init__(self, client: Any, tokenizer: Any, defaults: dict[str, Any], seed_key: tuple[Any, ...] | None) -> None:
        self.client, self.tokenizer, self.defaults, self.seed_key = client, tokenizer, defaults, seed_key

    async def sample(
        self,
        prompt_ids: list[int],
        *,
        max_tokens: int,
        key: Sequence[Any],
        stop: Sequence[str] = (),
        temperature: float | None = None,
        frozen: bool = False,
    ) -> Sample:
        """Raises EngineError when the frozen group is asked and the session has none."""
        params = dict(self.defaults, max_tokens=max_tokens)
        if temperature is not None:
            params["temperature"] = temperature
        if stop:
            params |= {"stop": list(stop), "include_stop_str_in_output": True}
        if self.seed_key is not None:
            params["seed"] = seed_of(*self.seed_key, *key)
        client = self.client.frozen if frozen else self.client
        if client is None:
            raise EngineError("this session has no frozen-model server")
        out = await client.generate(request_id=uuid4().hex, prompt_ids=prompt_ids, sampling_params=params)
        ids = list(out.token_ids)
        return Sample(
            token_ids=ids,
            log_probs=list(out.log_probs or [0.0] * len(ids)),
            text=self.decode(ids),
            finished=len(ids) < max_tokens or (bool(ids) and ids[-1] == self.tokenizer.eos_token_id),
            extra=out.extra_fields,
        )


def render(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """Token ids of a chat with the assistant's turn opened."""
    text = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
    return list(tokenizer.encode(text, add_special_tokens=False))


async def run_pieces(
    work: Sequence[Callable[[Sampler], Awaitable[T]]],
    sampler_of: Callable[[int], Sampler],
    on_done: Callable[[int, T], None],
    at_once: int,
) -> list[T]:
    """Pieces of sampling, `at_once` of them at a time, each with its own sampler; the results in their order."""
    gate = asyncio.Semaphore(at_once)

    async def one(place: int, piece: Callable[[Sampler], Awaitable[T]]) -> T:
        async with gate:
            result = await piece(sampler_of(place))
        on_done(place, result)
        return result

    return await asyncio.gather(*[one(place, piece) for place, piece in enumerate(work)])
