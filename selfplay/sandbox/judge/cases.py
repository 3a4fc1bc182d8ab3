"""The kinds of tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StdioTest:
    """A program reads `stdin` and must print `stdout`."""

    stdin: str
    stdout: str


@dataclass(frozen=True)
class CallTest:
    """A function is called with `arguments` and must return `expected`; a method of `Solution` if it is no function."""

    function: str
    arguments: tuple[Any, ...]
    expected: Any


@dataclass(frozen=True)
class AssertTest:
    """Statements with assertions about `function`. `setup` comes before them; `target`, as JSON of `values.dumps`, is
    what they know as the variable of that name."""

    function: str
    source: str
    setup: str = ""
    target: str | None = None


Test = StdioTest | CallTest | AssertTest
