"""Supervised steps through the engine's workers, and the cache of what they lead to (each system says when)."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from selfplay.backbones.cache import cache_root
from selfplay.engine.episode import Message
from selfplay.engine.session import Session
from selfplay.runs.files import to_json, write_atomic

if TYPE_CHECKING:
    from selfplay.algos.training_run import TrainingRun

NOTE = "note.json"  # beside the weights of a cached state: the table of the rounds that made it
CHUNK = 10  # optimizer steps a call, at one learning rate: verl unbinds the whole batch for every one of them
Pair = tuple[list[int], list[int]] | tuple[list[int], list[int], list[int]]  # as in `selfplay.engine.sft`


class Demo(Protocol):
    """A conversation and the response to imitate."""

    @property
    def messages(self) -> list[Message]: ...

    @property
    def response(self) -> str: ...


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Linear over the first 5% of the steps, then a cosine down to a tenth. `step` counts from 0."""
    rise = max(1, round(0.05 * steps))
    if step < rise:
        return peak * (step + 1) / rise
    progress = (step - rise) / max(1, steps - rise)
    return peak * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))


def encode(session: Session, demos: Sequence[Demo]) -> list[Pair]:
    """Token ids of prompts and responses; a response ends with the end-of-turn token."""
    tokenizer = session.tokenizer
    pairs: list[Pair] = []
    for demo in demos:
        response = [*tokenizer.encode(demo.response, add_special_tokens=False), tokenizer.eos_token_id]
        pairs.append((session.render(demo.messages), response))
    return pairs


def batch_of(pairs: Sequence[Pair], step: int, batch_size: int, seed: int) -> list[Pair]:
    """The batch of one step: successive pieces of a fresh permutation per epoch, the same for the same step."""
    per_epoch = len(pairs) // batch_size
    epoch, place = divmod(step, per_epoch)
    order = np.random.default_rng([seed, epoch]).permutation(len(pairs))
    return [pairs[i] for i in order[place * batch_size : (place + 1) * batch_size]]


@dataclass(frozen=True)
class Supervised:
    """A stretch of supervised steps: how many, of how many pairs, up to which learning rate, in which order."""

    steps: int
    batch_size: int
    lr: float
    seed: int
    constant: bool = False  # the learning rate stays at `lr`

    def train(
        self, session: Session, pairs: Sequence[Pair], first_step: int, on_chunk: Callable[[int, float], None]
    ) -> None:
        """Optimizer steps `first_step`..; `on_chunk(steps done, mean loss)` after every few."""
        if len(pairs) < self.batch_size:
            raise ValueError(f"need one batch at least: {len(pairs)} pairs, batches of {self.batch_size}")
        size = CHUNK if self.constant else max(1, min(CHUNK, self.steps // 20))  # a short schedule is a schedule too
        for start in range(first_step, self.steps, size):
            steps = range(start, min(start + size, self.steps))
            chunk = [pair for step in steps for pair in batch_of(pairs, step, self.batch_size, self.seed)]
            lr = self.lr if self.constant else learning_rate(start, self.steps, self.lr)
            losses = session.sft(chunk, self.batch_size, lr)
            on_chunk(steps.stop, sum(losses) / len(losses))


def cache_path(backbone: Path | str, demonstrations: str, settings: dict[str, Any]) -> Path:
    """Where the state that these settings make of this backbone and these demonstrations is, or would be, kept."""
    digest = hashlib.sha256()
    digest.update(str(backbone).encode())  # of a cached backbone, the name says its content; of others, size and time
    for path in sorted(Path(backbone).iterdir()) if Path(backbone).is_dir() else ():
        digest.update(f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}".encode())
    digest.update(demonstrations.encode())
    digest.update(json.dumps(settings, sort_keys=True).encode())
    return cache_root().parent / "warmup" / digest.hexdigest()[:32]


def annotate(path: Path, note: Mapping[str, Any]) -> None:
    """Replace the note of a kept state."""
    write_atomic(path / NOTE, to_json(note, indent=1) + "\n")


def read_note(path: Path) -> dict[str, Any]:
    """The note of a kept state. Raises ValueError, naming the file, for one that has no table of rounds."""
    try:
        note = dict(json.loads((path / NOTE).read_text(encoding="utf-8")))
        return {**note, "rounds": list(note["rounds"])}
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path / NOTE}: not the note of a kept state: {error}") from error


def store(session: Session, path: Path, note: Mapping[str, Any] | None = None) -> None:
    """Keep the session's state at `path`, whole or not at all, with a note; the first of several writers wins."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    session.save(partial)
    if note is not None:
        annotate(partial, note)
    try:
        os.rename(partial, path)
    except OSError:  # another run has just stored the same state
        shutil.rmtree(partial, ignore_errors=True)
        if not path.is_dir():
            raise


class WarmStart(Protocol):
    """Settings of a supervised start."""

    steps: int
    batch_size: int
    lr: float
    seed: int
    cache: bool


class Place(Protocol):
    done: int  # supervised steps


def warm_start(
    run: TrainingRun,
    config: WarmStart,
    place: Place,
    key: str,
    pairs: Callable[[], Sequence[Pair]],
    optim: Mapping[str, float],
) -> None:
    """Bring the session's policy through `config.steps` steps on `pairs`; a killed warm-up goes on where it was.

    `key` stands for the pairs' content; the result is taken from the cache, and kept there. `optim` are the settings of
    the optimizer that the result depends on.
    """
    if not config.steps:
        return
    cluster = run.config.cluster
    settings = {name: getattr(config, name) for name in ("steps", "batch_size", "lr", "seed")}
    settings |= {"world_size": cluster.world_size, "dtype": cluster.fsdp.dtype, **optim}
    cached = cache_path(run.backbone, key, settings)
    if config.cache and place.done == 0 and cached.is_dir():
        run.session.load(cached)
        run.progress.note(f"warm-up: taken from {cached}")
        return
    run.progress.phase("warm-up", place.done, config.steps)

    def after(done: int, loss: float) -> None:
        place.done = done
        run.progress.step(done, loss=loss)
        run.runtime.between_steps()
        run.save()

    recipe = Supervised(config.steps, config.batch_size, config.lr, config.seed)
    recipe.train(run.session, pairs(), place.done, after)
    if config.cache and not cached.is_dir():
        store(run.session, cached)
