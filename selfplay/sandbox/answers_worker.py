"""One process of `answers.AnswerJudge`: reads questions, a JSON object a line, and answers each with a line.

    {"parse": "\\\\frac{1}{2}"} -> {"number": true}          does the text parse as one finite real number?
    {"equal": ["1/2", "0.5"]}   -> {"equal": true}           by math-verify
    {"same": ["(1,2]", "(1,2]"]} -> {"same": true}            the same of answers that need not be numbers

It has no clock of its own: a question that takes too long ends with the process.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify
from sympy import Float, N

EXTRACTION = [LatexExtractionConfig(), ExprExtractionConfig()]


def parsed(text: str) -> list[Any]:
    """math-verify's reading of an answer; a text without any mark of LaTeX is read as LaTeX too."""
    marked = text if "$" in text or "\\(" in text or "\\boxed" in text else f"${text}$"
    return list(parse(marked, extraction_config=EXTRACTION, parsing_timeout=None))


def is_number(text: str) -> bool:
    """Whether the text is one finite real number."""
    found = [item for item in parsed(text) if not isinstance(item, str)]
    if not found:
        return False
    value = found[0]
    try:
        return bool(value.is_number and value.is_finite and value.is_real)
    except (AttributeError, TypeError):  # a matrix, a relation, a set
        return False


def same(gold: list[Any], given: list[Any]) -> bool:
    """math-verify's word; of two numbers of which one is a decimal, whether they agree to a part in a million: it would
    round both to six places, and make one of all that is small."""
    first, second = gold[0], given[0]
    numbers = all(getattr(one, "is_number", False) and getattr(one, "is_real", False) for one in (first, second))
    if numbers and (first.has(Float) or second.has(Float)):
        return bool(abs(N(first - second, 30)) <= abs(N(first, 30)) / 10**6)
    return bool(verify(gold, given, timeout_seconds=None))


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """The answer to one question; an error of the library is an answer of False."""
    try:
        if "parse" in question:
            return {"number": is_number(question["parse"])}
        if "same" in question:
            gold, given = map(parsed, question["same"])
            return {"same": bool(gold) and bool(given) and same(gold, given)}
        first, second = question["equal"]
        return {"equal": bool(verify(parsed(first), parsed(second), timeout_seconds=None))}
    except Exception as error:
        return {"number": False, "equal": False, "same": False, "error": f"{type(error).__name__}: {error}"}


def main() -> None:
    logging.disable(logging.CRITICAL)  # math-verify warns of every timeout that is off
    sys.set_int_max_str_digits(100_000)
    print("{}", flush=True)  # ready
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
