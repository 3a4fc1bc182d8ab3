r"""Whether an answer is the gold one: notation is cleaned here, numbers are compared here, the rest is math-verify's.

\dfrac{1}{2}  0.5  1/2  \$0.50  $\frac12$.        are one answer,
204_5  and  204_6                                 are two (math-verify drops a number's base).
"""

from __future__ import annotations

import re
from fractions import Fraction

from selfplay.sandbox.answers import AnswerJudge

LONGEST = 1000  # characters of an answer
TOLERANCE = Fraction(1, 10**6)  # relative, where one side is a decimal: 0.333333 stands for 1/3

_UNICODE = {
    "\u2212": "-", "\u2013": "-", "\u00d7": r"\times ", "\u00b7": r"\cdot ", "\u03c0": r"\pi ", "\u221e": r"\infty ",
    "\u00b0": r"^\circ", "\u2264": r"\le ", "\u2265": r"\ge ", "\u222a": r"\cup ", "\u2208": r"\in ", "\u00b1": r"\pm ",
    "\u00a0": " ", "\u2009": " ", "\u202f": " ",
}  # fmt: skip
_SPACES = re.compile(
    r"\\[,;:!> ]|\\q?quad\b|~|\\displaystyle\b|\\(?:left|right|big|Big)(?=[()\[\]|.])|\\(?:left|right)\b"
)
_WRAPPED = (
    re.compile(r"\$+(.*?)\$+"),
    re.compile(r"\\\((.*)\\\)"),
    re.compile(r"\\\[(.*)\\\]"),
    re.compile(r"\\(?:boxed|fbox)\s*\{(.*)\}"),
    re.compile(r"\\(?:mathbf|boldsymbol|bm|textbf)\s*\{(.*)\}"),
    re.compile(r"\{(.*)\}"),
    re.compile(r"\*\*(.*)\*\*"),
)
_MONEY = re.compile(r"\\?\$|\\mbox\{\\\$\}|\\text\{\\\$\}")
_GROUPED = re.compile(r"-?\d{1,3}(?:, ?\d{3})+(?:\.\d+)?")
_NUMBER = re.compile(r"(-?)(\d+(?:\.\d*)?|\.\d+)")
_FRACTION = re.compile(r"(-?)(?:\\[dt]?frac\{(-?\d+)\}\{(\d+)\}|(\d+)/(\d+))")
_BASED = re.compile(r"([0-9A-F]+)_\{?(\d+)\}?")


def cleaned(text: str) -> str:
    """The answer without what only sets it: outer marks, spaces, sizes of brackets, the sign of money, a full stop."""
    text = text.strip()
    for sign, latex in _UNICODE.items():
        text = text.replace(sign, latex)
    while True:
        before = text
        text = re.sub(r"(?:\\[,;:!> ]|\s)+$", "", text).strip()
        text = text[:-1] if text.endswith(".") and not text.endswith("..") else text
        for pattern in _WRAPPED:
            found = pattern.fullmatch(text)
            if found and _balanced(found[1]):
                text = found[1].strip()
        if text == before:
            break
    text = _SPACES.sub(" ", text.replace(r"\!", ""))
    text = re.sub(r"(?<=\d,) +(?=\d{3}\b)", "", text) if "(" not in text and "[" not in text else text
    return " ".join(_MONEY.sub("", text).split())


def _balanced(text: str) -> bool:
    """Whether every brace that is closed was opened: not so in the middle of `{1}+{2}`."""
    depth = 0
    for sign in re.sub(r"\\[{}]", "", text):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if depth < 0:
            return False
    return depth == 0


def rational(text: str) -> tuple[Fraction, bool] | None:
    """The number that a cleaned answer is, and whether it was written as a decimal; None for anything else."""
    text = text.replace(",", "") if _GROUPED.fullmatch(text) else text
    text = text.removeprefix("+")
    if found := _NUMBER.fullmatch(text):
        return Fraction(text), "." in text
    if found := _FRACTION.fullmatch(text):
        top, bottom = found[2] or found[4], int(found[3] or found[5])
        return (Fraction(int(top), bottom) * (-1 if found[1] else 1), False) if bottom else None
    return None


class MathAnswers:
    """Compares answers with the gold ones. Thread-safe."""

    def __init__(self, workers: int = 2) -> None:
        self._judge = AnswerJudge(workers)

    def same(self, gold: str, answer: str) -> bool:
        """Whether `answer` means what `gold` does; the gold one may hold several answers (`1, -2`), in any order."""
        if len(answer) > LONGEST:
            return False
        gold, answer = cleaned(gold), cleaned(answer)
        if not answer:
            return False
        if gold == answer:
            return True
        if (wanted := _BASED.fullmatch(gold)) and (given := _BASED.fullmatch(answer)):
            return wanted.groups() == given.groups()
        numbers = rational(gold), rational(_value(gold, answer))
        if numbers[0] is not None and numbers[1] is not None:
            return _same_number(*numbers[0], *numbers[1])
        return self._judge.same(gold, answer)

    def close(self) -> None:
        self._judge.close()


def _value(gold: str, answer: str) -> str:
    """The right side of `x = 5`, where the gold answer is no equation."""
    found = re.fullmatch(r"[A-Za-z](?:_\{?\w+\}?)?\s*=\s*([^=]+)", answer)
    return found[1].strip() if found and "=" not in gold else answer


def _same_number(first: Fraction, decimal: bool, second: Fraction, other_decimal: bool) -> bool:
    if first == second:
        return True
    return (decimal or other_decimal) and first != 0 and abs(first - second) <= TOLERANCE * abs(first)
