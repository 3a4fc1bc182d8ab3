"""Numerical answers: which are valid, which are equal, and what a stuck comparison costs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import psutil
import pytest

from selfplay.sandbox.answers import AnswerJudge


@pytest.fixture(scope="module")
def judge() -> Iterator[AnswerJudge]:
    judge = AnswerJudge(limit_s=3.0)
    yield judge
    judge.close()


VALID = ["5", "-3", "0.5", "1/2", "\\frac{1}{2}", "12,345", "2^{10}", "\\sqrt{2}", "$7$", "\\boxed{5}", "7!", "1e3"]
INVALID = ["", " ", "x+1", "abc", "(1,2)", "\\infty", "3+4i", "i", "1/0", "x = 2y", "5" * 400, "True", "nan"]


@pytest.mark.parametrize("text", VALID)
def test_a_number_is_valid(judge: AnswerJudge, text: str) -> None:
    assert judge.is_number(text)


@pytest.mark.parametrize("text", INVALID)
def test_anything_else_is_not(judge: AnswerJudge, text: str) -> None:
    assert not judge.is_number(text)


def test_equal_answers_in_different_notation_are_one_vote(judge: AnswerJudge) -> None:
    answers = ["1/2", "0.5", "\\frac{1}{2}", "0.50", None, "abc", "2", " 2 ", "2.0", "1,000", "1000"]
    classes = judge.classes(answers)
    assert len(set(classes[:4])) == 1
    assert classes[4:6] == [None, None]
    assert len(set(classes[6:9])) == 1
    assert len(set(classes[9:])) == 1
    assert len(set(classes) - {None}) == 3


def test_classes_do_not_depend_on_the_order(judge: AnswerJudge) -> None:
    answers = ["1/3", "0.333333", "2/6", "0.34", "3"]
    expected = dict(zip(answers, judge.classes(answers), strict=True))
    for order in itertools.permutations(answers):
        assert dict(zip(order, judge.classes(order), strict=True)) == expected


def test_equality_has_no_direction() -> None:
    judge = AnswerJudge()
    pairs = [("1/2", "0.5"), ("2^{10}", "1024"), ("\\sqrt{4}", "2"), ("0.33", "1/3"), ("\\pi", "3.14")]
    assert [judge.equal(a, b) for a, b in pairs] == [True, True, True, False, False]
    judge._known.clear()
    assert [judge.equal(b, a) for a, b in pairs] == [True, True, True, False, False]
    judge.close()


def workers() -> list[psutil.Process]:
    """The living ones; a process that other tests left as a zombie has no command line."""
    living = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    return [child for child in living if "answers_worker" in " ".join(child.cmdline())]


def test_a_stuck_comparison_is_ended_and_counts_as_unequal() -> None:
    others = workers()
    judge = AnswerJudge(limit_s=1.5)
    try:
        assert judge.equal("1/2", "0.5")
        (stuck,) = set(workers()) - set(others)
        started = time.monotonic()
        assert not judge.equal("10^{10^{10}}", "2")
        assert time.monotonic() - started < 10
        assert judge.timeouts == 1
        assert not psutil.pid_exists(stuck.pid)
        assert judge.equal("1/4", "0.25")  # the worker was replaced
        assert not judge.equal("10^{10^{10}}", "2")  # and the verdict is remembered
        assert judge.timeouts == 1
    finally:
        judge.close()


def test_a_killed_worker_is_replaced(judge: AnswerJudge) -> None:
    assert judge.is_number("\\frac{3}{4}")
    for worker in workers():
        worker.kill()
    judge.is_number("\\frac{5}{4}")  # the question under way is lost
    assert judge.is_number("\\frac{7}{4}")
