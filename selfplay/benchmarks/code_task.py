"""A coding task: what every reader gives and every writer takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from selfplay.sandbox.judge.cases import AssertTest, CallTest, StdioTest, Test

KINDS: dict[str, type[StdioTest] | type[CallTest] | type[AssertTest]] = {
    "stdio": StdioTest,
    "call": CallTest,
    "assert": AssertTest,
}


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


def to_record(task: CodeTask) -> dict[str, Any]:
    """A task as JSON values, with tests of every kind; `source` stays behind."""
    record = {item.name: getattr(task, item.name) for item in fields(task) if item.name != "source"}
    for name in ("public", "hidden"):
        record[name] = [{"kind": _kind(test), **asdict(test)} for test in getattr(task, name)]
    return record


def from_record(record: Mapping[str, Any]) -> CodeTask:
    """The inverse of `to_record`. Raises KeyError or TypeError for anything else."""
    tests = {name: tuple(_test(test) for test in record[name]) for name in ("public", "hidden")}
    return CodeTask(**{**record, **tests})


def _kind(test: Test) -> str:
    return next(kind for kind, made in KINDS.items() if isinstance(test, made))


def _test(record: Mapping[str, Any]) -> Test:
    values = {key: value for key, value in record.items() if key != "kind"}
    if record["kind"] == "call":
        values["arguments"] = tuple(values["arguments"])
    return KINDS[record["kind"]](**values)
