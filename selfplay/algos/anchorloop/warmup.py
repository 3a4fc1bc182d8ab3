"""The supervised start of backbones that know neither role: one model, demonstrations of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selfplay.algos.anchorloop.micro import Demo
from selfplay.algos.supervised import Pair, warm_start
from selfplay.engine.session import Session

if TYPE_CHECKING:
    from selfplay.algos.anchorloop.driver import AnchorLoopRun


def warm_up(run: AnchorLoopRun) -> None:
    """Bring the session's policy to where both roles start."""
    optim = {"weight_decay": run.algo.optim.weight_decay, "grad_clip": run.algo.optim.grad_clip}

    def pairs() -> list[Pair]:
        return [encode(run.session, demo) for demo in run.data.demonstrations()]

    warm_start(run, run.algo.warmup, run.position, run.data.key, pairs, optim)


def encode(session: Session, demo: Demo) -> Pair:
    """Prompt, response and mask: what the tool wrote is read, not imitated."""
    response: list[int] = []
    mask: list[int] = []
    for place, piece in enumerate(demo.pieces):  # apart, as they are in a rollout
        ids = session.tokenizer.encode(piece, add_special_tokens=False)
        response += ids
        mask += [1 - place % 2] * len(ids)
    return session.render(demo.messages), [*response, session.tokenizer.eos_token_id], [*mask, 1]
