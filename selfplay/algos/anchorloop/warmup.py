"""The supervised start of backbones that know neither role: one model, demonstrations of both, cached by content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from selfplay.algos.anchorloop.micro import Demo
from selfplay.algos.supervised import Pair, Supervised, cache_path, store
from selfplay.engine.session import Session

if TYPE_CHECKING:
    from selfplay.algos.anchorloop.driver import AnchorLoopRun


def warm_up(run: AnchorLoopRun) -> None:
    """Bring the session's policy to where both roles start; a killed warm-up goes on where it was."""
    config, place = run.algo.warmup, run.position
    if not config.steps:
        return
    cached = cache_path(run.backbone, run.data.key, _settings(run))
    if config.cache and place.done == 0 and cached.is_dir():
        run.session.load(cached)
        run.progress.note(f"warm-up: taken from {cached}")
        return
    run.progress.phase("warm-up", place.done, config.steps)
    pairs = [encode(run.session, demo) for demo in run.data.demonstrations()]

    def after(done: int, loss: float) -> None:
        place.done = done
        run.progress.step(done, loss=loss)
        run.runtime.between_steps()
        run.save()

    recipe = Supervised(config.steps, config.batch_size, config.lr, config.seed)
    recipe.train(run.session, pairs, place.done, after)
    if config.cache and not cached.is_dir():
        store(run.session, cached)


def encode(session: Session, demo: Demo) -> Pair:
    """Prompt, response and mask: what the tool wrote is read, not imitated."""
    response: list[int] = []
    mask: list[int] = []
    for place, piece in enumerate(demo.pieces):  # apart, as they are in a rollout
        ids = session.tokenizer.encode(piece, add_special_tokens=False)
        response += ids
        mask += [1 - place % 2] * len(ids)
    return session.render(demo.messages), [*response, session.tokenizer.eos_token_id], [*mask, 1]


def _settings(run: AnchorLoopRun) -> dict[str, Any]:
    config, optim, cluster = run.algo.warmup, run.algo.optim, run.config.cluster
    return {
        "steps": config.steps,
        "batch_size": config.batch_size,
        "lr": config.lr,
        "seed": config.seed,
        "world_size": cluster.world_size,
        "dtype": cluster.fsdp.dtype,
        "weight_decay": optim.weight_decay,
        "grad_clip": optim.grad_clip,
    }
