"""A model that writes nothing but cheats, through a whole session of the loop: none of them is ever rewarded."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from typing import Any

import dafny_cheats
import pytest

from selfplay.algos.ancora.config import AncoraConfig
from selfplay.algos.ancora.episode import AncoraEpisode, settings_of
from selfplay.algos.ancora.prompts import LABELS, proposer_response, solver_messages, solver_response
from selfplay.engine.episode import Message, Row, Sample
from selfplay.sandbox.config import DafnyConfig, DafnyLiteConfig

SEED = "method Min(x: int, y: int) returns (r: int)\n  ensures r <= x && r <= y\n  ensures r == x || r == y"
SANDBOXES = [
    pytest.param(DafnyLiteConfig(), id="dafny_lite"),
    pytest.param(
        DafnyConfig(),
        id="dafny",
        marks=[pytest.mark.slow, pytest.mark.skipif(shutil.which("dafny") is None, reason="dafny is not installed")],
    ),
]


class Scripted:
    """A `Sampler` whose model says the same two things whatever it is asked; a token is a character."""

    def __init__(self, proposal: str, answer: str) -> None:
        self.says = {"proposer": proposal, "solver": answer}

    def render(self, messages: Sequence[Message]) -> list[int]:
        return self.encode("\n".join(message["content"] for message in messages))

    def encode(self, text: str) -> list[int]:
        return [ord(c) for c in text]

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(map(chr, token_ids))

    async def sample(self, prompt_ids: list[int], *, max_tokens: int, key: Sequence[Any], **_options: Any) -> Sample:
        text = self.says[key[0]]
        ids = self.encode(text)
        return Sample(ids, [0.0] * len(ids), text, finished=True)


def session(episode: AncoraEpisode, spec: str, answer: str) -> list[Row]:
    """The rows of a session in which `spec` is proposed and answered with `answer`, word for word."""
    model = Scripted(proposer_response(("some words",) * len(LABELS), spec), solver_response(answer))
    task = {"seed": SEED, "seed_id": "0" * 16, "direction": "up", "seconds": [None]}
    return asyncio.run(episode.run(task, 0, "s000001x0000", model))


@pytest.fixture(params=SANDBOXES)
def episode(request: pytest.FixtureRequest) -> AncoraEpisode:
    algo = AncoraConfig(attempts_per_spec=1, max_prompt_tokens=10_000)
    return AncoraEpisode(settings_of(algo, request.param, "compact", "Dafny"))


def test_an_honest_model_is_rewarded(episode: AncoraEpisode) -> None:
    for answer in (dafny_cheats.HONEST, f"{dafny_cheats.MAX}\n{dafny_cheats.HONEST}"):
        rows = session(episode, dafny_cheats.MAX, answer)
        assert [(row.role, row.reward) for row in rows] == [("proposer", 1.0), ("solver", 1.0)]


def test_a_proposal_too_long_to_be_asked_is_rejected() -> None:
    """Once in the pool it could be selected as a seed, and no prompt would hold it."""
    room = len(Scripted("", "").render(solver_messages(dafny_cheats.MAX)))
    algo = AncoraConfig(attempts_per_spec=1, max_prompt_tokens=room + 1)  # "down" is shorter than "solve"
    rows = {}
    for spare in (0, -2):
        algo.max_prompt_tokens = room + spare
        episode = AncoraEpisode(settings_of(algo, DafnyLiteConfig(), "compact", "Dafny"))
        rows[spare] = session(episode, dafny_cheats.MAX, dafny_cheats.HONEST)
    assert [row.reward for row in rows[0]] == [1.0, 1.0]
    assert [(row.reward, row.record["reason"]) for row in rows[-2]] == [(0.0, "too_long")]


def test_no_cheat_of_the_corpus_is_rewarded(episode: AncoraEpisode) -> None:
    corpus = dafny_cheats.cheats()
    whole = [(f"{name}_whole", spec, f"{spec}\n{answer}") for name, spec, answer in corpus]
    assert len(corpus) >= 40
    rewarded = [
        name
        for name, spec, answer in corpus + whole
        if not (episode.prover.name == "dafny" and name.removesuffix("_whole") in dafny_cheats.FAIR_IN_DAFNY)
        and any(row.reward != 0.0 for row in session(episode, spec, answer))
    ]
    assert rewarded == []
