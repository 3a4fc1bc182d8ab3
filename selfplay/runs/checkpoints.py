"""`checkpoints/step_000012/`: a folder by that name is complete, and the newest is where a run continues.

A checkpoint is written in a staging folder. When its COMPLETE marker and every file are on the disk the folder is
renamed to its final name, which is the commit. A process killed before the marker leaves rubbish that the next opening
sweeps away; killed after it, a checkpoint that the next opening commits. The marker has every file's SHA-256: a
checkpoint that the disk has damaged since is set aside, and the run continues from the one before.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from selfplay.runs.files import sync_folder, sync_tree, to_json, write_atomic

log = logging.getLogger(__name__)

COMPLETE = "COMPLETE"
DAMAGED = "damaged_"
READERS = 8  # threads that hash; the shards of a large model are as many files
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
        self.set_aside: list[str] = []  # damaged checkpoints that `latest` found: folder and reason
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
        write_atomic(staging / COMPLETE, to_json({"step": step, "sha256": digests(staging)}, indent=1) + "\n")
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
        """The committed checkpoint of the highest step, or None. Damaged ones are set aside, as `damaged_step_...`."""
        for checkpoint in reversed(self.all()):
            wrong = damage(checkpoint.path)
            if not wrong:
                return checkpoint
            aside = checkpoint.path.with_name(DAMAGED + checkpoint.path.name)
            shutil.rmtree(aside, ignore_errors=True)
            os.rename(checkpoint.path, aside)
            self.set_aside.append(f"{aside}: {wrong}")
            log.warning("a damaged checkpoint is set aside: %s: %s", aside, wrong)
        return None

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


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below `folder` but the marker, by its path from there."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    names = [name for name in names if name != COMPLETE]
    with ThreadPoolExecutor(READERS) as readers:
        return dict(zip(names, readers.map(lambda name: _sha256(folder / name), names), strict=True))


def damage(folder: Path) -> str:
    """What is wrong with a checkpoint's files; empty: nothing, or its marker is of a version that had no sums."""
    try:
        marker = json.loads((folder / COMPLETE).read_text(encoding="utf-8"))
        if isinstance(marker, int):
            return ""
        wanted = dict(marker["sha256"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        return f"{COMPLETE} is not what a run writes: {type(error).__name__}"
    try:
        found = digests(folder)
    except OSError as error:
        return f"{error.filename} cannot be read: {error.strerror}"
    if missing := sorted(wanted.keys() - found.keys()):
        return f"{missing[0]} is missing"
    changed = sorted(name for name, digest in wanted.items() if found[name] != digest)
    return f"{changed[0]} is not what was written" if changed else ""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
