"""HumanEval's shape: the reference passes, slips do not, and a response's imports and bodies are put together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from selfplay.benchmarks.humaneval import program_of, task_of
from selfplay.sandbox.config import JudgeConfig
from selfplay.sandbox.judge.judge import Judge

PROMPT = '''from typing import List

def double(x: int) -> int:
    return 2 * x

def doubled(numbers: List[int]) -> List[int]:
    """Every number doubled.
    >>> doubled([1])
    [2]
    """
'''
CHECK = """
METADATA = {}

def check(candidate):
    import random
    assert candidate([]) == []
    assert candidate([1, 2]) == [2, 4], "two"
    for _ in range(20):
        given = [random.randint(0, 9) for _ in range(3)]
        assert candidate(given[:]) == [2 * x for x in given]
"""
RECORD: dict[str, Any] = {
    "task_id": "HumanEval/x",
    "prompt": PROMPT,
    "entry_point": "doubled",
    "canonical_solution": "    return [double(x) for x in numbers]\n",
    "test": CHECK,
}


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    made = Judge(JudgeConfig())
    yield made
    made.close()


def test_the_reference_passes(judge: Judge) -> None:
    task = task_of(RECORD)
    assert judge.judge(task.reference, task.tests).passed


@pytest.mark.parametrize(
    ("code", "passed"),
    [
        ("def doubled(numbers):\n    return [double(x) for x in numbers]", True),  # the prompt's helper
        ("def doubled(numbers: List[int]):\n    return [x + x for x in numbers]", True),  # its import
        ("    return [2 * x for x in numbers]", True),  # a body alone
        ("return [2 * x for x in numbers]", True),
        ("def doubled(numbers):\n    return [2, 4] if numbers else []", False),
        ("def doubled(numbers):\n    return numbers", False),
        ("def other(numbers):\n    return [2 * x for x in numbers]", False),
        ("import os\nos._exit(0)", False),
        ("class Any(list):\n    def __eq__(self, other): return True\ndef doubled(numbers):\n    return Any()", False),
        ("def doubled(numbers)\n", False),
    ],
)
def test_responses(judge: Judge, code: str, passed: bool) -> None:
    task = task_of(RECORD)
    assert judge.judge(program_of(task, code), task.tests).passed is passed


def test_a_record_without_its_function_is_refused() -> None:
    with pytest.raises(ValueError, match="does not define other"):
        task_of({**RECORD, "entry_point": "other"})
