"""What an algorithm gives the engine: an *episode*, which turns one task into rows to train on.

Nothing heavy is imported here, so an algorithm can be read, typed and tested without the engine. One session of one
task may return several rows (a proposal and its K attempts): each keeps its own role, group and reward.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Message = dict[str, str]


@dataclass(frozen=True)
class Task:
    """One prompt's worth of work: `sessions` independent sessions of `episode` on `payload` (JSON values)."""

    payload: Mapping[str, Any]
    sessions: int
    episode: str


@dataclass(frozen=True)
class Sample:
    """A sampled continuation. `log_probs` are the server's; `finished` is False when `max_tokens` cut it."""

    token_ids: list[int]
    log_probs: list[float]
    text: str
    finished: bool
    extra: Mapping[str, Any] = field(default_factory=dict)  # verl's bookkeeping, passed through


@dataclass
class Row:
    """One trajectory to train on. `mask[i]` is 1 where the policy wrote `response_ids[i]`, 0 for tool output."""

    role: str
    group: str  # rows of one role with one group are compared with each other
    prompt_ids: list[int]
    response_ids: list[int]
    mask: list[int]
    log_probs: list[float]
    reward: float
    record: dict[str, Any]  # JSON values for people and metrics: verdict, text, reason ...
    extra: Mapping[str, Any] = field(default_factory=dict)
    clip_high: float | None = None  # the ratio's upper bound for this row, where it is not the policy's
    trained: bool = True  # False: logged, and in no update

    @classmethod
    def of(
        cls, role: str, group: str, prompt_ids: list[int], sample: Sample, reward: float, record: dict[str, Any]
    ) -> Row:
        """A row whose response is one whole sample."""
        n = len(sample.token_ids)
        return cls(role, group, prompt_ids, sample.token_ids, [1] * n, sample.log_probs, reward, record, sample.extra)

    def append(self, sample: Sample) -> None:
        """What the policy wrote next."""
        self.response_ids = [*self.response_ids, *sample.token_ids]
        self.mask += [1] * len(sample.token_ids)
        self.log_probs = [*self.log_probs, *sample.log_probs]
        self.extra = sample.extra

    def append_foreign(self, token_ids: Sequence[int]) -> None:
        """What somebody else wrote next: it is read, not learned."""
        self.response_ids = [*self.response_ids, *token_ids]
        self.mask += [0] * len(token_ids)
        self.log_probs = [*self.log_probs, *[0.0] * len(token_ids)]


class Sampler(Protocol):
    """The models of a session, as an episode sees them."""

    def render(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a chat, with the assistant's turn opened."""
        ...

    def encode(self, text: str) -> list[int]: ...

    def decode(self, token_ids: Sequence[int]) -> str: ...

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
        """One continuation. `key` names the draw within the session: same run seed and key, same sample.

        `frozen` asks the frozen-model group instead of the policy.
        """
        ...


class Episode(Protocol):
    """Built once per worker process from the settings; one `run` per session."""

    async def run(self, task: Mapping[str, Any], session: int, uid: str, sampler: Sampler) -> list[Row]: ...


def seed_of(*parts: Any) -> int:
    """A 31-bit request seed from anything with a stable repr."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "little") & 0x7FFFFFFF
