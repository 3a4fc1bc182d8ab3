"""A response over several turns: the model writes code, the sandbox runs it, its output goes back masked.

A complete pair of tags ends a turn. The program is stateless: a fresh interpreter each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from selfplay.algos.anchorloop.config import RolloutSizes
from selfplay.algos.anchorloop.prompts import CODE_CLOSE, OUTPUT_CLOSE, OUTPUT_OPEN, code_to_run
from selfplay.engine.episode import Row, Sample, Sampler
from selfplay.sandbox.python.result import Ending, PythonRunner, RunResult

CHARACTERS_A_TOKEN = 8  # more than any text has on average: cut to this before the tokenizer sees it


class Codec(Protocol):
    """What counts tokens and cuts by them."""

    def encode(self, text: str) -> list[int]: ...

    def decode(self, token_ids: Sequence[int]) -> str: ...


@dataclass
class Trajectory:
    """What a rollout came to: tokens after the prompt, of which `mask` marks the model's own."""

    prompt_ids: list[int]
    response_ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    text: str = ""  # everything after the prompt
    calls: int = 0  # programs that were run
    errors: int = 0  # of them, those that did not finish well
    finished: bool = False  # the model ended its turn itself
    extra: dict[str, Any] = field(default_factory=dict)

    def take(self, sample: Sample) -> None:
        """What the model wrote."""
        self.response_ids += sample.token_ids
        self.mask += [1] * len(sample.token_ids)
        self.log_probs += sample.log_probs
        self.text += sample.text
        self.extra = dict(sample.extra)

    def take_output(self, ids: Sequence[int], text: str) -> None:
        """What the sandbox answered: read, not learned."""
        self.response_ids += ids
        self.mask += [0] * len(ids)
        self.log_probs += [0.0] * len(ids)
        self.text += text

    def row(self, role: str, group: str, reward: float, record: dict[str, Any]) -> Row:
        """As a row to train on."""
        return Row(
            role, group, self.prompt_ids, self.response_ids, self.mask, self.log_probs, reward, record, self.extra
        )


async def respond(
    sampler: Sampler,
    prompt_ids: list[int],
    sizes: RolloutSizes,
    python: PythonRunner,
    *,
    key: Sequence[Any],
    frozen: bool = False,
) -> Trajectory:
    """One rollout: at most `sizes.turns` programs, at most `sizes.max_tokens` tokens in all.

    Raises:
        SandboxError: the sandbox failed; that says nothing about the rollout, so there is none.
    """
    out = Trajectory(list(prompt_ids))
    stop = (CODE_CLOSE,) if sizes.turns else ()
    while True:
        room = sizes.max_tokens - len(out.response_ids)
        if room <= 0:
            return out
        may_call = out.calls < sizes.turns
        sample = await sampler.sample(
            [*prompt_ids, *out.response_ids],
            max_tokens=room,
            key=(*key, out.calls),
            stop=stop if may_call else (),
            frozen=frozen,
        )
        out.take(sample)
        program = code_to_run(sample.text) if may_call and sample.finished else None
        if program is None:
            out.finished = sample.finished
            return out
        result = await asyncio.to_thread(python.run, program)
        out.calls += 1
        out.errors += result.ending is not Ending.FINISHED
        text = shown(result, sampler, sizes.output_tokens)
        ids = sampler.encode(text)
        if len(out.response_ids) + len(ids) >= sizes.max_tokens:
            return out
        out.take_output(ids, text)


def shown(result: RunResult, codec: Codec, limit: int) -> str:
    """What the model sees of a run: its output, then how it failed if it did, cut at `limit` tokens."""
    text = result.stdout.strip()[: limit * CHARACTERS_A_TOKEN]
    if result.ending is Ending.TIMEOUT:
        text += "\nTimeoutError: the program took too long"
    elif result.ending is not Ending.FINISHED:
        last = result.stderr.strip().splitlines()[-1:] or [f"the program was ended by signal {result.exit_code}"]
        text += "\n" + last[0][: limit * CHARACTERS_A_TOKEN]
    ids = codec.encode(text.strip())
    body = text.strip() if len(ids) <= limit else codec.decode(ids[:limit]) + " ..."
    body = body.replace(OUTPUT_CLOSE, "< /output>").replace(OUTPUT_OPEN, "< output>")  # what it prints stays inside
    return f"\n{OUTPUT_OPEN}\n{body}\n{OUTPUT_CLOSE}\n"
