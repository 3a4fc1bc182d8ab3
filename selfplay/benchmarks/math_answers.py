r"""Whether an answer is the gold one: notation is cleaned here, numbers are compared here, the rest is math-verify's.

\dfrac{1}{2}  0.5  1/2  \$0.50  $\frac12$.        are one answer,
204_5  and  204_6                                 are two (math-verify drops a number's base),
5 \text{ or } 6                                   is none: who hedges has not answered.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from selfplay.sandbox.answers import AnswerJudge

LONGEST = 1000  # characters of an answer
TOLERANCE = Fraction(1, 10**6)  # relative, where one side is a decimal: 0.333333 stands for 1/3
LARGEST_EXPONENT = 400

_UNICODE = {
    "\u2212": "-", "\u2013": "-", "\u00d7": r"\times ", "\u00b7": r"\cdot ", "\u03c0": r"\pi ", "\u221e": r"\infty ",
    "\u00b0": r"^\circ", "\u2264": r"\le ", "\u2265": r"\ge ", "\u222a": r"\cup ", "\u2208": r"\in ", "\u00b1": r"\pm ",
    "\u00a0": " ", "\u2009": " ", "\u202f": " ",
}  # fmt: skip
_ROW = re.compile(r"\\\\\s*(?:\[[^\]]*\])?\s*")  # the end of a matrix's row
_SPACES = re.compile(r"(?<!\\)(?:\\[,;:!> ]|\\q?quad\b|\\displaystyle\b|\\(?:left|right)\b|\\[bB]ig(?=[()\[\]|.]))|~")
_AT_END = re.compile(r"(?:(?<!\\)\\[,;:!> ]|\s)+$")
_WRAPPED = (
    re.compile(r"\$+(.*?)\$+"),
    re.compile(r"\\\((.*?)\\\)"),
    re.compile(r"\\\[(.*?)\\\]", re.DOTALL),
    re.compile(r"\\(?:boxed|fbox)\s*\{(.*)\}"),
    re.compile(r"\\(?:mathbf|boldsymbol|bm|textbf)\s*\{(.*)\}"),
    re.compile(r"\{(.*)\}"),
    re.compile(r"\*\*(.*)\*\*"),
)
_MONEY = re.compile(r"\\\$|(?:^|(?<=[\s=]))\$|\\mbox\{\\\$\}|\\text\{\\\$\}")
_GROUPED = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_NUMBER = re.compile(r"(-?)(\d+(?:\.\d*)?|\.\d+)")
_FRACTION = re.compile(r"(-?)(?:\\[dt]?frac\{(-?\d+)\}\{(\d+)\}|(\d+)/(\d+))")
_SCIENTIFIC = re.compile(
    r"(-?(?:\d+(?:\.\d*)?|\.\d+))(?:[eE]|\s*(?:\\times|\\cdot)\s*10\s*\^)\s*\{?\s*(-?\d{1,4})\s*\}?"
)
_UNIT = re.compile(r"\s*\\(?:text|mathrm|mbox)\{[^{}]*\}(?:\^\{?\d\}?)?$")
_BASED = re.compile(r"([0-9A-F]+)_\{?(\d+)\}?")
_WORD = re.compile(r"(?:\\(?:text|mathrm|mbox)\{\s*)?([A-Z]{2,})\s*\}?")  # letters that stand in an order
# What an answer has no business with unless the gold one has it too: logic, relations, dots, words that take back.
_HEDGES = re.compile(
    r"\\(?:lor|land|vee|wedge|neg|lnot|implies|iff|Rightarrow|to|sim|ldots|dots|cdots|cup|ne|neq|approx)\b|\.\.\."
    r"|\b(?:or|and|if|not|else|maybe|wrong|otherwise|unless|either|radians?)\b|\\[()\[\]]|\$|boxed"
)
_RELATION = re.compile(r"^\s*(?:[<>]|\\(?:le|ge|leq|geq|lt|gt)\b)")


def cleaned(text: str) -> str:
    """The answer without what only sets it: outer marks, spaces, sizes of brackets, the sign of money, a full stop."""
    text = text.strip()
    for sign, latex in _UNICODE.items():
        text = text.replace(sign, latex)
    text = _ROW.sub(r"\\\\", text)
    while True:
        before = text
        text = _AT_END.sub("", text).strip()
        text = text[:-1] if text.endswith(".") and not text.endswith("..") else text
        for pattern in _WRAPPED:
            found = pattern.fullmatch(text)
            if found and _balanced(found[1]):
                text = found[1].strip()
        if text == before:
            break
    text = re.sub(r",(?:\\!|\{\})\s*|\{,\}", ",", text).replace(r"\!", "")
    return " ".join(_MONEY.sub("", _SPACES.sub(" ", text)).split())


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
    text = _UNIT.sub("", text).strip()
    text = text.replace(",", "") if _GROUPED.fullmatch(text) else text
    text = text.removeprefix("+")
    if found := _NUMBER.fullmatch(text):
        return Fraction(text), "." in text
    if found := _SCIENTIFIC.fullmatch(text):
        exponent = int(found[2])
        return (Fraction(found[1]) * Fraction(10) ** exponent, True) if abs(exponent) <= LARGEST_EXPONENT else None
    if found := _FRACTION.fullmatch(text):
        top, bottom = found[2] or found[4], int(found[3] or found[5])
        return (Fraction(int(top), bottom) * (-1 if found[1] else 1), False) if bottom else None
    return None


def parts_of(text: str) -> list[str]:
    """The members of a list (`1, -2`, `\\{1, -2\\}`): cut at commas outside of brackets; a grouped number is one."""
    text = re.sub(r"^\\\{(.*)\\\}$", r"\1", text)
    text = re.sub(r"\\text\{\s*(?:and|or)\s*\}", ",", text)
    if _GROUPED.fullmatch(_UNIT.sub("", text).strip()):
        return [text]
    parts, depth = [""], 0
    for sign in text:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


class MathAnswers:
    """Compares answers with the gold ones. Thread-safe."""

    def __init__(self, workers: int = 2) -> None:
        self._judge = AnswerJudge(workers)

    def same(self, gold: str, answer: str) -> bool:
        """Whether `answer` means what `gold` does; the gold one may hold several answers (`1, -2`), in any order."""
        if len(answer) > LONGEST:
            return False
        gold, answer = cleaned(gold), cleaned(answer)
        wanted, given = parts_of(gold), parts_of(answer)
        if len(wanted) == 1 and len(given) == 1:
            return self._one(gold, answer)
        return len(wanted) == len(given) and _matched(wanted, given, self._one)

    def _one(self, gold: str, answer: str) -> bool:
        """Of one member each."""
        if not answer or _hedged(gold, answer):
            return False
        if gold == answer:
            return True
        if word := _WORD.fullmatch(gold):
            return re.sub(r"\\(?:text|mathrm|mbox)|[{}\s]", "", answer) == word[1]
        if (wanted := _BASED.fullmatch(gold)) and (given := _BASED.fullmatch(answer)):
            return wanted.groups() == given.groups()
        numbers = rational(gold), rational(_value(gold, answer))
        if numbers[0] is not None and numbers[1] is not None:
            return _same_number(*numbers[0], *numbers[1])
        return self._judge.same(gold, answer)

    def close(self) -> None:
        self._judge.close()


def _matched(wanted: list[str], given: list[str], same: Callable[[str, str], bool]) -> bool:
    """Whether each of the wanted ones has an answer of its own."""
    left = list(given)
    for one in wanted:
        found = next((other for other in left if same(one, other)), None)
        if found is None:
            return False
        left.remove(found)
    return True


def _hedged(gold: str, answer: str) -> bool:
    """Whether the answer says more than an answer: two of them, a bound, a chain of equations, another base."""
    if set(_HEDGES.findall(answer)) - set(_HEDGES.findall(gold)):
        return True
    if _RELATION.match(answer) and not _RELATION.match(gold):
        return True
    if _BASED.fullmatch(answer) and not _BASED.fullmatch(gold):
        return True
    sides = answer.split("=")
    numbers = [side for side in sides if rational(side.strip()) is not None]
    return "=" not in gold and (len(numbers) > 1 or (len(sides) > 1 and rational(sides[0].strip()) is not None))


def _value(gold: str, answer: str) -> str:
    """The right side of `x = 5`, where the gold answer is no equation."""
    found = re.fullmatch(r"[A-Za-z](?:_\{?\w+\}?)?\s*=\s*([^=]+)", answer)
    return found[1].strip() if found and "=" not in gold else answer


def _same_number(first: Fraction, decimal: bool, second: Fraction, other_decimal: bool) -> bool:
    if first == second:
        return True
    return (decimal or other_decimal) and first != 0 and abs(first - second) <= TOLERANCE * abs(first)
