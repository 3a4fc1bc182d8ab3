"""Root specifications from a JSONL file: one object a line with `id` and `spec`, maybe `family`, `grade`, `answer`.

Every refusal is one line that begins with `file:line:`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


class RootFileError(ValueError):
    """A root file that cannot be used; the message names file, line and reason."""


@dataclass(frozen=True)
class Root:
    """A curated specification."""

    name: str  # the file's own id, for people; nodes are named by their text
    spec: str
    family: str = ""
    grade: int = 0  # difficulty as its author sees it, for reports
    answer: str | None = None  # a known verified answer


_OPTIONAL: dict[str, tuple[type, str]] = {"family": (str, "a string"), "grade": (int, "a whole number")}


def load_roots(path: str | Path, check: Callable[[str], str | None] | None = None) -> list[Root]:
    """Read and validate a root file. Blank lines are skipped.

    Args:
        check: judges a specification, for instance by a prover; returns the reason for refusing it, or None.

    Raises:
        RootFileError: unreadable or empty file, or a line that is not JSON, lacks a field, has a value of the wrong
            type, an empty spec, an id or a spec seen before, or a spec that `check` refuses.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RootFileError(f"{path}: cannot be read: {error}") from error
    roots: list[Root] = []
    seen_names: dict[str, int] = {}
    seen_specs: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            root = _parse(line)
            _refuse_repeat("id", root.name, seen_names, number)
            _refuse_repeat("spec", " ".join(root.spec.split()), seen_specs, number)
            refusal = check(root.spec) if check else None
            if refusal is not None:
                raise ValueError(f"spec of {root.name!r} is refused: {refusal}")
        except ValueError as error:
            raise RootFileError(f"{path}:{number}: {error}") from error
        roots.append(root)
    if not roots:
        raise RootFileError(f"{path}: holds no root specification")
    return roots


def _refuse_repeat(field: str, value: str, seen: dict[str, int], number: int) -> None:
    if value in seen:
        raise ValueError(f"{field} repeats that of line {seen[value]}")
    seen[value] = number


def _parse(line: str) -> Root:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from error
    if not isinstance(entry, dict):
        raise ValueError(f"expected an object, got {type(entry).__name__}")
    known: Sequence[str] = ("id", "spec", "answer", *_OPTIONAL)
    unknown = sorted(set(entry) - set(known))
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}; allowed: {', '.join(known)}")
    for field in ("id", "spec"):
        if field not in entry:
            raise ValueError(f"missing field {field!r}")
        if not isinstance(entry[field], str):
            raise ValueError(f"field {field!r} must be a string, got {type(entry[field]).__name__}")
        if not entry[field].strip():
            raise ValueError(f"field {field!r} is empty")
    for field, (kind, wanted) in _OPTIONAL.items():
        if field in entry and (not isinstance(entry[field], kind) or isinstance(entry[field], bool)):
            raise ValueError(f"field {field!r} must be {wanted}, got {type(entry[field]).__name__}")
    answer = entry.get("answer")
    if answer is not None and not (isinstance(answer, str) and answer.strip()):
        raise ValueError("field 'answer' must be a non-empty string or null")
    return Root(entry["id"], entry["spec"], entry.get("family", ""), entry.get("grade", 0), answer)
