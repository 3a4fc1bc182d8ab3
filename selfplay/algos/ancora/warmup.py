"""Supervised warm-up on demonstrations (the paper's SFT phase), through the engine's workers.

The result is cached by the hash of everything it depends on, so a second run starts from it at once; and it is
checkpointed every few steps, so a killed run goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from selfplay.algos.ancora.config import WarmupConfig
from selfplay.algos.ancora.demos import Demo
from selfplay.backbones.cache import cache_root
from selfplay.engine.session import Session

CHUNK = 10  # optimizer steps a call: verl unbinds the whole batch for every one of them
Pair = tuple[list[int], list[int]]


def learning_rate(step: int, config: WarmupConfig) -> float:
    """Linear over the first 5% of the steps, then a cosine down to a tenth. `step` counts from 0."""
    rise = max(1, round(0.05 * config.steps))
    if step < rise:
        return config.lr * (step + 1) / rise
    progress = (step - rise) / max(1, config.steps - rise)
    return config.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))


def encode(session: Session, demos: Sequence[Demo]) -> list[Pair]:
    """Token ids of prompts and responses; a response ends with the end-of-turn token."""
    tokenizer = session.tokenizer
    pairs = []
    for demo in demos:
        response = [*tokenizer.encode(demo.response, add_special_tokens=False), tokenizer.eos_token_id]
        pairs.append((session.render(demo.messages), response))
    return pairs


def batch_of(pairs: Sequence[Pair], step: int, config: WarmupConfig) -> list[Pair]:
    """The batch of one step: successive pieces of a fresh permutation per epoch, the same for the same step."""
    per_epoch = len(pairs) // config.batch_size
    epoch, place = divmod(step, per_epoch)
    order = np.random.default_rng([config.seed, epoch]).permutation(len(pairs))
    return [pairs[i] for i in order[place * config.batch_size : (place + 1) * config.batch_size]]


def train(
    session: Session,
    pairs: Sequence[Pair],
    config: WarmupConfig,
    first_step: int,
    on_chunk: Callable[[int, float], None],
) -> None:
    """Optimizer steps `first_step`.. of the warm-up; `on_chunk(steps done, mean loss)` after every few."""
    if len(pairs) < config.batch_size:
        raise ValueError(
            f"warm-up needs at least one batch: {len(pairs)} demonstrations, batch_size {config.batch_size}"
        )
    for start in range(first_step, config.steps, CHUNK):
        steps = range(start, min(start + CHUNK, config.steps))
        chunk = [pair for step in steps for pair in batch_of(pairs, step, config)]
        losses = session.sft(chunk, config.batch_size, learning_rate(start, config))
        on_chunk(steps.stop, sum(losses) / len(losses))


def cache_path(backbone: Path | str, demos: Sequence[Demo], config: WarmupConfig, settings: dict[str, Any]) -> Path:
    """Where the warmed-up state of this backbone, demonstrations and settings is, or would be, kept."""
    digest = hashlib.sha256()
    digest.update(str(backbone).encode())  # of a cached backbone, the name says its content; of others, size and time
    for path in sorted(Path(backbone).iterdir()) if Path(backbone).is_dir() else ():
        digest.update(f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}".encode())
    for demo in demos:
        digest.update(json.dumps([demo.messages, demo.response]).encode())
    digest.update(json.dumps(settings | vars(config), sort_keys=True).encode())
    return cache_root().parent / "warmup" / digest.hexdigest()[:32]


def store(session: Session, path: Path) -> None:
    """Keep the session's state at `path`, whole or not at all; the first of several writers wins."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    session.save(partial)
    try:
        os.rename(partial, path)
    except OSError:  # another run has just stored the same state
        shutil.rmtree(partial, ignore_errors=True)
        if not path.is_dir():
            raise
