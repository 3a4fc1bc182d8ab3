"""Attempts at tasks, graded: what counts is the last fenced block of a reply that came to its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from selfplay.algos.benchevolver.replies import code_blocks
from selfplay.benchmarks.code_task import CodeTask
from selfplay.sandbox.judge.judge import Job, Judge, Verdict

NO_CODE, CUT_OFF = "no code", "cut off"


@dataclass(frozen=True)
class Attempt:
    """A reply to a task; `finished` is False where the token budget was used up."""

    task: CodeTask
    text: str
    finished: bool = True


@dataclass(frozen=True)
class Grade:
    """`outcome` is OK, WA, TLE or RE of the first failing test, or `no code`, or `cut off`."""

    passed: bool
    has_code: bool
    outcome: str
    detail: str = ""


def grade(judge: Judge, attempts: Sequence[Attempt]) -> list[Grade]:
    """All attempts on all tests of their tasks. One program for one task is judged once, however often it was given.

    Raises JudgeError where a task's own tests are broken.
    """
    programs = [code_blocks(attempt.text)[-1:] if attempt.finished else [] for attempt in attempts]
    asked: dict[tuple[int, str], Job] = {}
    for attempt, found in zip(attempts, programs, strict=True):
        for program in found:
            key = (id(attempt.task), program)
            asked.setdefault(key, Job(program, attempt.task.tests, attempt.task.unordered))
    verdicts = dict(zip(asked, judge.judge_all(list(asked.values())), strict=True))
    return [
        _grade(attempt, verdicts[id(attempt.task), found[0]] if found else None)
        for attempt, found in zip(attempts, programs, strict=True)
    ]


def _grade(attempt: Attempt, verdict: Verdict | None) -> Grade:
    if not attempt.finished:
        return Grade(False, bool(code_blocks(attempt.text)), CUT_OFF)
    if verdict is None:
        return Grade(False, False, NO_CODE)
    place = verdict.first_failure
    detail = "" if place is None else f"test {place}: {verdict.results[place].detail}"
    return Grade(verdict.passed, True, str(verdict.outcome), detail)
