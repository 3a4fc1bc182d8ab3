"""A JSONL file that grows a record at a time: after a kill at most the last is torn, and that one is cut off."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfplay.runs.files import to_json


class AppendLog:
    """Read once, then appended to, each record in one write. One writer at a time, one thread."""

    def __init__(self, path: Path) -> None:
        """Raises ValueError, naming file and line, for a line that is no JSON object."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.records: list[dict[str, Any]] = []
        if path.exists():
            content = path.read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):  # a killed writer's
                os.truncate(path, whole)
            for number, line in enumerate(content[:whole].splitlines(), start=1):
                self.records.append(_record(path, number, line))
        self._file = path.open("ab", buffering=0)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a record; it is not kept in `records`.

        Raises:
            OSError: the disk is full; the file is then as it was.
        """
        data = to_json(record).encode("utf-8", "replace") + b"\n"  # a lone surrogate becomes a question mark
        before, rest = os.fstat(self._file.fileno()).st_size, data
        try:
            while rest:
                rest = rest[self._file.write(rest) or 0 :]
        except OSError:
            os.ftruncate(self._file.fileno(), before)
            raise

    def close(self) -> None:
        self._file.close()


def _record(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}:{number}: {error}") from error
