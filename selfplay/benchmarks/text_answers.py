"""Whether a short text is the target of a task like BBEH's: letters, words, numbers and lists, by what they say."""

from __future__ import annotations

import re

_OPTION = re.compile(r"\(?([a-z])\)?")
_NUMBER = re.compile(r"-?[\d,]*\.?\d+")
_MARKS = re.compile(r"^[\s\"'`*$]+|[\s\"'`*$.]+$")
_SET = re.compile(r"\\(?:text|mathrm|textbf|mathbf|boxed)\s*\{([^{}]*)\}")


def cleaned(text: str) -> str:
    """Lower case, without marks of LaTeX, quotes, a full stop at the end, and blanks that say nothing."""
    while (plain := _SET.sub(r"\1", text)) != text:
        text = plain
    text = _MARKS.sub("", text.strip().lower())
    return re.sub(r"\s*,\s*", ",", " ".join(text.split()))


def same_text(target: str, answer: str) -> bool:
    """Equal when cleaned, as one option's letter, as one number, or as one list with or without its brackets."""
    wanted, given = cleaned(target), cleaned(answer)
    if wanted == given:
        return True
    letters = _OPTION.fullmatch(wanted), _OPTION.fullmatch(given)
    if letters[0] and letters[1]:
        return letters[0][1] == letters[1][1]
    if _NUMBER.fullmatch(wanted) and _NUMBER.fullmatch(given):
        return float(wanted.replace(",", "")) == float(given.replace(",", ""))
    return _items(wanted) == _items(given) and bool(_items(wanted))


def _items(text: str) -> list[str]:
    """The items of a list, without its brackets and their quotes."""
    inside = re.fullmatch(r"[\[(]?(.*?)[\])]?", text)
    return [_MARKS.sub("", item) for item in inside[1].split(",")] if inside and inside[1] else []
