"""verl's replay buffer, made impatient: it reports progress, and raises where the stock one polls for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from selfplay.engine.errors import RolloutFailed

POLL_S = 0.02  # the stock 2 s would round every generation up


class StrictReplayBuffer(ReplayBuffer):
    """Waits for a whole batch. `progress(done, total)` is called whenever a prompt ends; a failed prompt raises."""

    progress: Callable[[int, int], None] | None = None
    check: Callable[[], None] | None = None  # raises when a worker is gone
    error_log: Path | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.poll_interval = POLL_S
        self._done = -1
        self._checked = 0.0

    def _sync_metadata_from_transfer_queue(self) -> None:
        super()._sync_metadata_from_transfer_queue()
        finished, failed = self.finished_keys["train"], self.failure_keys["train"]
        if failed:
            raise RolloutFailed(f"{len(failed)} prompt(s) failed in their rollout: {self._reason()}")
        done = len(finished)
        total = done + len(self.running_keys["train"]) + len(self.pending_keys["train"])
        if self.progress is not None and done != self._done:
            self._done = done
            self.progress(done, total)
        if self.check is not None and time.monotonic() - self._checked > 1.0:
            self._checked = time.monotonic()
            self.check()

    def _reason(self) -> str:
        if self.error_log is None or not self.error_log.exists():
            return "no traceback was recorded; see the workers' logs"
        return self.error_log.read_text(encoding="utf-8").strip().splitlines()[-1] + f" (traceback in {self.error_log})"
