"""What a response gives as its answer. A response that gives none is wrong; nothing is guessed from its last number."""

from __future__ import annotations

import re

_THOUGHT = re.compile(r".*</think>", re.DOTALL)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_FINAL = re.compile(r"^[ \t>*_#]*(?:Final answer|FINAL ANSWER)[ \t*_]*:[ \t*_]*(.+?)[ \t*_]*$", re.MULTILINE)
_STATED = re.compile(r"\b(?:the|my)\s+(?:(?:final|correct|best)\s+)?answer\s+is[:\s]\s*(.+?)(?:\.\s|\.?$)", re.I | re.M)
_HASHES = re.compile(r"^#{4}[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_FENCE = re.compile(r"^```[ \t]*[A-Za-z0-9+_-]*[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)


def after_thought(text: str) -> str:
    """What follows the last thought; a response without one as it is."""
    return _THOUGHT.sub("", text, count=1)


def boxed(text: str) -> str | None:
    r"""The content of the last `\boxed{...}`; None if there is none, or if it is not closed."""
    starts = list(_BOX.finditer(text))
    if not starts:
        return None
    depth, begin = 1, starts[-1].end()
    for place in range(begin, len(text)):
        if text[place - 1] == "\\" and text[place] in "{}":
            continue
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[begin:place]
    return None


def answer(text: str) -> str | None:
    """The answer of a response: its last box, else its last `Final answer:` line, else the last `the answer is ...`,
    else what follows `####`."""
    text = after_thought(text)
    found = boxed(text)
    if found is not None:
        return found.strip() or None
    for pattern in (_FINAL, _STATED, _HASHES):
        matches = pattern.findall(text)
        if matches:
            return str(matches[-1]).strip() or None
    return None


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LETTER = re.compile(r"^[\s(\[{*$]*(?:\\(?:text|mathrm|mathbf|textbf)\s*\{)?[\s(]*([A-Z])(?![A-Za-z])")
_ALONE = re.compile(r"^[ \t(*]*([A-Z])[ \t).*:]*$", re.MULTILINE)


def choice(text: str, options: int) -> str | None:
    """The letter that a response to a question with `options` answers chooses, "A" for the first.

    It is the letter that its answer (see `answer`) begins with, or else the last line that is a letter alone.
    """
    letters = LETTERS[:options]
    given = answer(text)
    if given is not None:
        found = _LETTER.match(given)
        return found[1] if found and found[1] in letters else None
    alone = [letter for letter in _ALONE.findall(after_thought(text)) if letter in letters]
    return alone[-1] if alone else None


def program(text: str) -> str | None:
    """The last fenced block of a response."""
    found = _FENCE.findall(after_thought(text))
    return str(found[-1]) if found else None
