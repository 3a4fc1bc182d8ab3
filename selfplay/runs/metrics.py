"""`metrics.jsonl`: one JSON object a step, in order; after a crash the last may be missing but is never half there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from selfplay.runs.files import RunDirError, to_json, write_atomic


class MetricsLog:
    """Appends to a metrics file. A torn last line, left by a process that was killed, is cut off on opening.

    Write a step's line *before* committing its checkpoint: then no checkpointed step is without its line, and
    `truncate_after` with the step of the checkpoint makes the file what an unbroken run would have had.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._cut_torn_line()
        self._file = path.open("a", encoding="utf-8")

    def append(self, step: int, values: Mapping[str, Any]) -> None:
        """Add one object, `step` first, and see it onto the disk."""
        self._file.write(to_json({"step": step, **values}) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def truncate_after(self, step: int) -> int:
        """Drop every line of a step beyond `step`, all at once or not at all; returns how many were dropped."""
        records = list(read_metrics(self.path))
        kept = [record for record in records if record["step"] <= step]
        if len(kept) < len(records):
            self._file.close()
            write_atomic(self.path, "".join(to_json(record) + "\n" for record in kept))
            self._file = self.path.open("a", encoding="utf-8")
        return len(records) - len(kept)

    def replace(self, text: str) -> None:
        """Make the file what it was when it held `text`, however it has been damaged since."""
        self._file.close()
        write_atomic(self.path, text)
        self._file = self.path.open("a", encoding="utf-8")

    def close(self) -> None:
        self._file.close()

    def _cut_torn_line(self) -> None:
        if not self.path.exists():
            return
        with self.path.open("rb+") as file:
            content = file.read()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                file.truncate(whole)
                os.fsync(file.fileno())


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a metrics file, oldest first; a torn last line is left out.

    Raises:
        RunDirError: a whole line is not a step's JSON object; names file and line.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                record = json.loads(line)
                int(record["step"])
            except (ValueError, TypeError, KeyError) as error:
                raise RunDirError(f"{path}:{number}: not a step's metrics: {error!r}") from error
            yield record
