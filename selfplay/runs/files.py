"""Writes that are either there in full or not at all, whatever kills the process."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class RunDirError(ValueError):
    """A run's directory, or a file in it, cannot be used; the message is one line that names it."""


def write_atomic(path: Path, text: str) -> None:
    """Replace `path` by `text`: a reader, or a process after a crash, sees the old content or the new.

    One writer at a time per path: the temporary name beside it is fixed, so that a killed writer's leftover is
    overwritten by the next.

    Raises:
        OSError: the folder is missing, full or not writable; `path` is then as it was.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and new names in `folder` last through a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """fsync every file and folder below `folder`, and itself."""
    for parent, _, names in os.walk(folder):
        for name in names:
            descriptor = os.open(os.path.join(parent, name), os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_folder(Path(parent))


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines.

    Raises:
        RunDirError: a line is not JSON; names file and line.
    """
    records = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line:  # the end; splitlines() would cut at marks that may stand in a text
            continue
        try:
            records.append(json.loads(line))
        except ValueError as error:  # bytes that are no text are one too
            raise RunDirError(f"{path}:{number}: not JSON: {error}") from error
    return records


def to_json(value: Mapping[str, Any], indent: int | None = None) -> str:
    """Strict JSON: numpy and torch scalars become numbers, NaN and infinities become null."""
    return json.dumps(plain(value), indent=indent, allow_nan=False, ensure_ascii=False)


def plain(value: Any) -> Any:
    """`value` made of JSON's own types.

    Raises:
        TypeError: something in it is neither a JSON type, nor a scalar with `item()`, nor a path.
    """
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    if hasattr(value, "item"):  # a numpy or torch scalar, recognised without importing either
        return plain(value.item())
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be written as JSON")
