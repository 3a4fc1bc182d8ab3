"""What a response gives as its answer. A response that gives none is wrong: no number of it is guessed to be one."""

from __future__ import annotations

import re

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_THOUGHT = re.compile(r".*</think>", re.DOTALL)
_OPEN_THOUGHT = re.compile(r"<think>.*", re.DOTALL)
_TOKENS = re.compile(r"(?:</s>|<\|[a-z_]+\|>)\s*$")
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BETWEEN = re.compile(r"[\s$]*(?:,|and|or|\\text\{\s*(?:and|or)\s*\})[\s$]*")  # boxes that are one answer
_KIND = r"(?:final\s+|correct\s+|required\s+|right\s+|best\s+)?(?:answer|option|choice)"
_LABEL = re.compile(
    rf"^[ \t>*_#-]*(?:the\s+|my\s+)?{_KIND}[ \t*_]*:[ \t*_]*\n?[ \t*_]*(\S.*?)[ \t*_]*$", re.MULTILINE | re.IGNORECASE
)
_HEADING = re.compile(
    r"^[ \t]*#+[ \t]*(?:final[ \t]+)?answer[ \t]*\n+[ \t]*(\S.*?)[ \t]*$", re.MULTILINE | re.IGNORECASE
)
_STATED = re.compile(rf"\b(?:the|my)\s+{_KIND}\s+is\b:?\s*(\S.*?)(?:\.(?=\s|$)|$)", re.MULTILINE | re.IGNORECASE)
_HASHES = re.compile(r"^#{4}[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
_FENCE = re.compile(r"^```[ \t]*[A-Za-z0-9+_-]*[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)


def after_thought(text: str) -> str:
    """What follows the last thought; nothing of one that was never closed."""
    return _OPEN_THOUGHT.sub("", _THOUGHT.sub("", text, count=1))


def boxes(text: str) -> list[tuple[int, int, str]]:
    r"""(start, end, content) of every `\boxed{...}` that is closed and holds something."""
    found = []
    for start in _BOX.finditer(text):
        depth, begin = 1, start.end()
        for place in range(begin, len(text)):
            if text[place - 1] == "\\" and text[place] in "{}":
                continue
            depth += {"{": 1, "}": -1}.get(text[place], 0)
            if depth == 0:
                if text[begin:place].strip():
                    found.append((start.start(), place + 1, text[begin:place].strip()))
                break
    return found


def boxed(text: str) -> tuple[int, str] | None:
    """Where the last box ends and what it holds; boxes with only `,` or `and` between them are one answer."""
    found = [box for box in boxes(text) if not any(o[0] < box[0] and box[1] < o[1] for o in boxes(text))]
    if not found:
        return None
    parts = [found[-1]]
    for box in reversed(found[:-1]):
        if not _BETWEEN.fullmatch(text[box[1] : parts[0][0]]):
            break
        parts.insert(0, box)
    return parts[-1][1], ", ".join(part[2] for part in parts)


def answer(text: str) -> str | None:
    """The answer of a response: the last of its boxes, lines `Answer: ...`, `the answer is ...` and `#### ...`."""
    text = _TOKENS.sub("", after_thought(text).rstrip())
    box = boxed(text)
    candidates = [box] if box else []
    for pattern in (_LABEL, _HEADING, _STATED, _HASHES):
        candidates += [(match.end(), match[1]) for match in pattern.finditer(text) if "boxed" not in match[1]]
    if not candidates:
        return None
    return max(candidates, key=lambda one: one[0])[1].strip() or None


_COMMAND = re.compile(r"\\(?:text|textbf|textrm|mathrm|mathbf|mathit|bf|left|right|boldsymbol)\b")
_WORDS = re.compile(r"\b(?:option|choice|answer)\b", re.IGNORECASE)
_LETTER = re.compile(r"([A-Za-z])(?:$|\s*[).:,]+\s*(.*)$)", re.DOTALL)
_ALONE = re.compile(r"^[ \t(*]*([A-Z])[ \t).*:]*$", re.MULTILINE)


def choice(text: str, options: int) -> str | None:
    """The letter that a response to a question with `options` answers chooses, "A" for the first.

    It is the letter that its answer (see `answer`) begins with, before a mark or the end; a second letter undoes it. A
    response without such an answer chooses by its last line, if that is a letter alone.
    """
    given = answer(text)
    if given is None:
        alone = list(_ALONE.finditer(after_thought(text).rstrip()))
        last = alone[-1] if alone and alone[-1].end() == len(after_thought(text).rstrip()) else None
        return last[1] if last and last[1] in LETTERS[:options] else None
    plain = _WORDS.sub(" ", _COMMAND.sub(" ", given))
    plain = re.sub(r"[{}$*()\[\]]", lambda mark: ")" if mark[0] == ")" else " ", plain).strip()
    found = _LETTER.match(plain)
    if not found or found[1].upper() not in LETTERS[:options] or (found[1].islower() and found[2]):
        return None
    others = re.findall(r"(?<![A-Za-z])([A-Z])(?![A-Za-z])", found[2] or "")
    return None if any(other in LETTERS[:options] for other in others) else found[1].upper()


def program(text: str) -> str | None:
    """The last fenced block of a response."""
    found = _FENCE.findall(after_thought(text))
    return str(found[-1]) if found else None
