"""A coding task: what every reader gives and every writer takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from selfplay.sandbox.judge.cases import Test


class BadData(ValueError):
    """A file that cannot be used; the message names the file, the line and the field."""


@dataclass(frozen=True)
class CodeTask:
    """Statement S, reference C (may be missing), tests T. The harness follows from the kind of the tests.

    `public` tests are shown in the statement, `hidden` ones are not. `function` is the name under which the tests call
    the program, empty for programs that read standard input. `source` holds the fields of the original record that are
    not in the others; writers put them back.
    """

    task_id: str
    statement: str
    public: tuple[Test, ...] = ()
    hidden: tuple[Test, ...] = ()
    reference: str = ""
    function: str = ""
    starter_code: str = ""
    unordered: bool = False  # any order of lines or items is right
    difficulty: str = ""
    source: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tests(self) -> tuple[Test, ...]:
        """All tests, the public ones first."""
        return self.public + self.hidden
