"""`checkpoints/step_000012/`: a folder by that name is complete, and the newest is where a run continues.

A checkpoint is written in a staging folder. When its COMPLETE marker and every file are on the disk the folder is
renamed to its final name, which is the commit. A process killed before the marker leaves rubbish that the next opening
sweeps away; killed after it, a checkpoint that the next opening commits.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from selfplay.runs.files import sync_folder, sync_tree, write_atomic

COMPLETE = "COMPLETE"
_FINAL = re.compile(r"^step_(\d{6,})$")
_STAGED = re.compile(r"^\.staging_step_(\d{6,})$")
_TRASH = ".trash_"
LANDMARKS = 3


@dataclass(frozen=True)
class Checkpoint:
    """A committed checkpoint: the step after which it was taken, and its folder."""

    step: int
    path: Path


class CheckpointStore:
    """The checkpoints of one run. One process at a time (the run directory's lock sees to that)."""

    def __init__(self, folder: Path, keep: int, landmark_every: int = 0) -> None:
        """Open the folder, creating it if need be; finish or sweep what a killed process left.

        The newest `keep` checkpoints stay, and the newest three of every `landmark_every` steps (0: none).

        Raises:
            ValueError: `keep` is below 1.
        """
        if keep < 1:
            raise ValueError(f"keep: {keep} is not allowed; it must be 1 or more")
        self.folder = folder
        self.keep, self.landmark_every = keep, landmark_every
        folder.mkdir(parents=True, exist_ok=True)
        self._recover()

    @contextmanager
    def stage(self, step: int) -> Iterator[Path]:
        """An empty folder to fill; committed as `step`'s checkpoint if the block ends well, discarded if it raises.

        A checkpoint of the same step is replaced. Older ones beyond `keep` are removed after the commit.
        """
        staging = self.folder / f".staging_step_{step:06d}"
        self._discard(staging)
        staging.mkdir()
        try:
            yield staging
        except BaseException:
            self._discard(staging)
            raise
        sync_tree(staging)
        write_atomic(staging / COMPLETE, f"{step}\n")
        self._commit(step, staging)
        self._prune()

    def all(self) -> list[Checkpoint]:
        """Committed checkpoints, oldest first."""
        found = [
            Checkpoint(int(match[1]), entry)
            for entry in self.folder.iterdir()
            if (match := _FINAL.match(entry.name)) and (entry / COMPLETE).is_file()
        ]
        return sorted(found, key=lambda checkpoint: checkpoint.step)

    def latest(self) -> Checkpoint | None:
        """The committed checkpoint of the highest step, or None."""
        found = self.all()
        return found[-1] if found else None

    def _commit(self, step: int, staging: Path) -> None:
        final = self.folder / f"step_{step:06d}"
        self._discard(final)  # between this and the rename the staging folder is complete, so nothing can be lost
        os.rename(staging, final)
        sync_folder(self.folder)

    def drop_after(self, step: int) -> None:
        """Remove the checkpoints of later steps, the newest first: a run that goes back begins there again."""
        for checkpoint in reversed(self.all()):
            if checkpoint.step > step:
                self._discard(checkpoint.path)

    def _prune(self) -> None:
        found = self.all()
        every = self.landmark_every
        landmarks = [c for c in found if every and c.step % every == 0][-LANDMARKS:]
        for checkpoint in found[: -self.keep]:
            if checkpoint not in landmarks:
                self._discard(checkpoint.path)

    def _recover(self) -> None:
        for entry in sorted(self.folder.iterdir()):
            staged = _STAGED.match(entry.name)
            if staged and (entry / COMPLETE).is_file():
                self._commit(int(staged[1]), entry)
            elif staged or entry.name.startswith(_TRASH):
                self._discard(entry)
        self._prune()

    def _discard(self, path: Path) -> None:
        """Remove a folder such that, killed half way, it is never taken for a checkpoint."""
        if not path.exists():
            return
        if not path.name.startswith(_TRASH):
            trash = path.with_name(_TRASH + path.name.lstrip("."))
            if trash.exists():
                shutil.rmtree(trash)
            os.rename(path, trash)
            path = trash
        shutil.rmtree(path)
