"""Who is asked: a model that this command serves itself, or one behind an endpoint."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from selfplay.algos.anchorloop.config import RolloutSizes
from selfplay.algos.anchorloop.prompts import CODE_CLOSE, CODE_OPEN, OUTPUT_CLOSE, OUTPUT_OPEN, code_to_run
from selfplay.algos.anchorloop.tool_use import respond, shown
from selfplay.algos.benchevolver.models import Call, Endpoint, EndpointConfig
from selfplay.engine.episode import Message
from selfplay.engine.errors import EngineError
from selfplay.engine.serving import ServedSampler
from selfplay.sandbox.python.result import PythonRunner

_RUN = re.compile(
    f"{re.escape(CODE_OPEN)}.*?{re.escape(CODE_CLOSE)}|{re.escape(OUTPUT_OPEN)}.*?{re.escape(OUTPUT_CLOSE)}", re.DOTALL
)


class SampleFailed(RuntimeError):
    """The server gave no answer to one question, and still serves."""


@dataclass(frozen=True)
class Asked:
    """A question with its sampling. `sizes.turns` is 0 without the tool; `key` tells draws apart."""

    messages: Sequence[Message]
    sizes: RolloutSizes
    temperature: float
    top_p: float
    key: tuple[Any, ...]


@dataclass(frozen=True)
class Response:
    """`text` is everything after the prompt; `own` is what of it the model wrote outside of programs."""

    text: str
    finished: bool
    tokens: int = 0
    calls: int = 0  # of the tool

    @property
    def own(self) -> str:
        return _RUN.sub("", self.text) if self.calls else self.text


class Respondent(Protocol):
    name: str  # of the weights, in the log

    async def answer(self, asked: Asked) -> Response: ...

    async def close(self) -> None: ...


class Served:
    """A model behind this command's own server: prompts are rendered here, so a turn goes on where it stopped."""

    def __init__(self, name: str, url: str, key: str, model: str, tokenizer: Any, python: PythonRunner | None) -> None:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        self.name, self.model, self.tokenizer = name, model, tokenizer
        self.python = python
        direct = DefaultAsyncHttpxClient(trust_env=False, timeout=3600.0)  # the server is on this machine: no proxy
        self._client = AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, http_client=direct)

    async def answer(self, asked: Asked) -> Response:
        """Raises SandboxError, SampleFailed where the server refuses this question, EngineError where it is gone."""
        import openai

        try:
            return await self._answer(asked)
        except openai.APIConnectionError as error:
            raise EngineError(f"the server is gone: {error}") from error
        except openai.APIStatusError as error:
            raise SampleFailed(f"{error.status_code}: {error.message}") from error

    async def _answer(self, asked: Asked) -> Response:
        defaults = {"temperature": asked.temperature, "top_p": asked.top_p}
        sampler = ServedSampler(self._client, self.model, self.tokenizer, defaults, asked.key)
        prompt = sampler.render(asked.messages)
        if asked.sizes.turns and self.python is not None:
            found = await respond(sampler, prompt, asked.sizes, self.python, key=())
            return Response(found.text, found.finished, len(found.response_ids), found.calls)
        sample = await sampler.sample(prompt, max_tokens=asked.sizes.max_tokens, key=(0,))
        return Response(sample.text, sample.finished, len(sample.token_ids))

    async def close(self) -> None:
        await self._client.close()


class Remote:
    """A model behind an endpoint. It knows chats only, so the tool's output comes as the other side's message."""

    def __init__(self, config: EndpointConfig, python: PythonRunner | None) -> None:
        self.name, self.python = config.model, python
        self._endpoint = Endpoint(config)

    async def answer(self, asked: Asked) -> Response:
        """Raises CallFailed or EndpointRefused."""
        messages, text, tokens, calls = list(asked.messages), "", 0, 0
        while True:
            room, key = asked.sizes.max_tokens - tokens, (*asked.key, calls)
            call = Call("evaluation", messages, key, room, asked.temperature, asked.top_p)
            reply = await self._endpoint.complete(call)
            tokens += reply.completion_tokens
            turn = _first_program(reply.text) if calls < asked.sizes.turns else reply.text
            program = code_to_run(turn) if calls < asked.sizes.turns else None
            text += turn
            if program is None or self.python is None or tokens >= asked.sizes.max_tokens:
                return Response(text, reply.finished and program is None, tokens, calls)
            result = await asyncio.to_thread(self.python.run, program)
            output = shown(result, _Characters(), asked.sizes.output_tokens * 4)
            calls, text = calls + 1, text + output
            messages += [{"role": "assistant", "content": turn}, {"role": "user", "content": output.strip()}]

    async def close(self) -> None:
        await self._endpoint.close()


def _first_program(text: str) -> str:
    """A turn ends with its first program: what a model goes on to imagine of its output is cut."""
    end = text.find(CODE_CLOSE)
    return text if end < 0 else text[: end + len(CODE_CLOSE)]


class _Characters:
    """Stands in for a tokenizer that an endpoint does not give: a character a token."""

    def encode(self, text: str) -> list[int]:
        return list(map(ord, text))

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(map(chr, token_ids))
