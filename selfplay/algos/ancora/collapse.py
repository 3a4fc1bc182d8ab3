"""The collapse alarm (section D.5): a sustained window of steps with few valid proposals."""

from __future__ import annotations

from collections.abc import Sequence

from selfplay.runs.checkpoints import Checkpoint, CheckpointStore

WINDOW, RATE = 20, 0.30
MAX_ROLLBACKS = 3  # each halves the learning rate; a run that collapses once more is stopped


def collapsed(valid_rates: Sequence[float]) -> bool:
    """Whether the last `WINDOW` steps all had a valid rate below `RATE`."""
    return len(valid_rates) >= WINDOW and max(valid_rates[-WINDOW:]) < RATE


def before_collapse(store: CheckpointStore, step: int) -> Checkpoint | None:
    """The newest checkpoint from before the window that ends with `step`."""
    old = [checkpoint for checkpoint in store.all() if checkpoint.step <= step - WINDOW]
    return old[-1] if old else None
