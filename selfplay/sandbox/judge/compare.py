"""Whether a program's output is the expected one.

`strict`: lines without their trailing blanks are equal, or hold the same tokens where numbers that are written with a
fraction may differ by 1e-6 relatively; where a task accepts any order, the lines may come in any. `paper` is
BenchEvolver's rule (section D): any number may differ by 1e-6, and the tokens may come in any order whatever the task
says. It accepts wrong answers, and is here to compare with published numbers.
"""

from __future__ import annotations

import math
import re
from collections import Counter

TOLERANCE = 1e-6  # relative
WHOLE = 1e-3  # how far a number written with a fraction may be from a whole one, at most
MATCHED = 500  # items in any order that are matched one by one
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def same_output(got: str, expected: str, *, unordered: bool = False, comparison: str = "strict") -> bool:
    """Compare what a program printed with what it should have printed."""
    ours, theirs = _lines(got), _lines(expected)
    if ours == theirs:
        return True
    if comparison == "paper":
        return _close(got.split(), expected.split(), integers=True) or Counter(got.split()) == Counter(expected.split())
    mine, wanted = [line.split() for line in ours], [line.split() for line in theirs]
    if len(mine) == len(wanted) and all(_close(a, b, integers=False) for a, b in zip(mine, wanted, strict=True)):
        return True
    return unordered and Counter(map(tuple, mine)) == Counter(map(tuple, wanted))


def _lines(text: str) -> list[str]:
    """Lines without trailing blanks, and without the empty ones at the end. A carriage return is a blank."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _close(got: list[str], expected: list[str], integers: bool) -> bool:
    return len(got) == len(expected) and all(_same_token(a, b, integers) for a, b in zip(got, expected, strict=True))


def _same_token(got: str, expected: str, integers: bool) -> bool:
    if got == expected:
        return True
    if not (_NUMBER.fullmatch(got) and _NUMBER.fullmatch(expected)):
        return False
    if _INTEGER.fullmatch(expected) and not integers:  # a count is right or wrong, however large
        if _INTEGER.fullmatch(got):
            return max(len(got), len(expected)) < 4000 and int(got) == int(expected)
        return abs(float(got) - float(expected)) <= min(TOLERANCE * abs(float(expected)), WHOLE)
    return math.isclose(float(got), float(expected), rel_tol=TOLERANCE)


def same_value(got: object, expected: object, *, unordered: bool = False, comparison: str = "strict") -> bool:
    """Compare what a function returned with what it should have returned. Lists and tuples are one kind of sequence."""
    paper = comparison == "paper"
    if isinstance(expected, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(expected):
            return False
        if all(same_value(a, b, comparison=comparison) for a, b in zip(got, expected, strict=True)):
            return True
        return (unordered or paper) and _same_multiset(list(got), list(expected), comparison)
    if isinstance(expected, dict):
        return (
            isinstance(got, dict)
            and got.keys() == expected.keys()
            and all(same_value(got[key], value, comparison=comparison) for key, value in expected.items())
        )
    if isinstance(expected, bool) or isinstance(got, bool) or not isinstance(expected, int | float):
        return type(got) is type(expected) and got == expected
    if not isinstance(got, int | float):
        return False
    if isinstance(expected, int) and not paper:
        return got == expected and (isinstance(got, int) or abs(got) < 2**53)
    if math.isnan(expected):
        return math.isnan(got)
    return got == expected or math.isclose(got, expected, rel_tol=TOLERANCE)


def _same_multiset(got: list[object], expected: list[object], comparison: str) -> bool:
    if Counter(map(repr, got)) == Counter(map(repr, expected)):
        return True
    if len(got) > MATCHED:  # every one with every one: only where numbers may differ a little, and only so many
        return False
    left = list(expected)
    for value in got:
        place = next((i for i, other in enumerate(left) if same_value(value, other, comparison=comparison)), None)
        if place is None:
            return False
        del left[place]
    return True
