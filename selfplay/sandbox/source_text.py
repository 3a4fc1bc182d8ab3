"""Reading Dafny and Verus source without a parser: what is a comment, and where a body begins.

Both languages put clauses between a header and its body, and both allow braces in clauses (sets, matches, blocks). A
body is told from these by what follows it: the next item, the end of a block, or the end of the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PIECES = {
    "Dafny": re.compile(
        r"""//[^\n]*|/\*|@"(?:[^"]|"")*"|"(?:\\.|[^"\\\n])*"|(?<![A-Za-z0-9_'?])'(?:\\.|[^'\\\n])'""", re.S
    ),
    "Verus": re.compile(
        r"""//[^\n]*|/\*|b?r(?P<hashes>\#*)"|b?"(?:\\.|[^"\\])*"|b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\\n])'""", re.S
    ),
}
_EDGE = re.compile(r"/\*|\*/")


class UnreadableError(ValueError):
    """A text whose parts cannot be told apart; one line that says why."""


def blanked(text: str, language: str, *, strings: bool = True) -> str:
    """`text` with comments (and, if `strings`, the contents of literals) replaced by blanks of the same length.

    Raises:
        UnreadableError: an unclosed comment or raw string.
    """
    out: list[str] = []
    done = 0
    while found := _PIECES[language].search(text, done):
        start, end = found.start(), found.end()
        comment = found.group().startswith("/")
        if found.group() == "/*":
            end = _comment_end(text, start)
        elif language == "Verus" and found["hashes"] is not None:
            closing = text.find('"' + found["hashes"], end)
            if closing < 0:
                raise UnreadableError("an unclosed raw string")
            end = closing + 1 + len(found["hashes"])
        out.append(text[done:start])
        blank = re.sub(r"[^\n]", " ", text[start:end])
        if not comment:  # the quotes stay: a literal is an operand
            blank = '"' + blank[1:-1] + '"' if strings else text[start:end]
        out.append(blank)
        done = end
    out.append(text[done:])
    return "".join(out)


def _comment_end(text: str, start: int) -> int:
    level = 0
    for edge in _EDGE.finditer(text, start):
        level += 1 if edge.group() == "/*" else -1
        if level == 0:
            return edge.end()
    raise UnreadableError("an unclosed comment")


_OPEN, _CLOSE = "([{", ")]}"


def closing_of(code: str, at: int) -> int:
    """The place of the bracket that closes the one at `at`; `code` is blanked.

    Raises:
        UnreadableError: it is not closed, or by a bracket of another kind.
    """
    stack: list[str] = []
    for place in range(at, len(code)):
        character = code[place]
        if character in _OPEN:
            stack.append(_CLOSE[_OPEN.index(character)])
        elif character in _CLOSE:
            if not stack or stack.pop() != character:
                raise UnreadableError("brackets do not match")
            if not stack:
                return place
    raise UnreadableError("a bracket is not closed")


_ITEMS = {
    "Dafny": re.compile(
        r"(?:(?:ghost|static|opaque|twostate|least|greatest|abstract|inductive|copredicate|compiled)\s+)*(?:method|lemma"
        r"|function|predicate|class|trait|module|datatype|codatatype|newtype|type|const|iterator|constructor|import|export"
        r"|colemma|copredicate|var\s+\w+\s*:[^=]*$)\b|\}|$"
    ),
    "Verus": re.compile(
        r"(?:(?:pub(?:\s*\([^)]*\))?|open|closed|uninterp|broadcast|exec|proof|spec|tracked|ghost|const|unsafe|async|default"
        r"|extern)\s+)*(?:fn|struct|enum|impl|trait|mod|use|static|type|union|global|proof|spec)\b|#|const\b|broadcast\b"
        r"|macro_rules!|verus!|\}|$"
    ),
}


# An expression that goes on with a block of its own, and the end of one that is not over: what follows is no body.
_HEADS = {"Dafny": re.compile(r"\bmatch\b"), "Verus": re.compile(r"\b(?:match|if)\b")}
_WANTS_MORE = {
    "Dafny": re.compile(
        r"(?:[=!<+\-/%&,:(\[]|(?<!decreases )\*|=>|\|\||"
        r"\b(?:in|then|else|modifies|reads|ensures|requires|invariant|decreases))\s*$"
    ),
    "Verus": re.compile(r"(?:[=!<+\-*/%&|(\[]|=>|==>|\b(?:else|as|is|ensures|requires|recommends|returns))\s*$"),
}


@dataclass(frozen=True)
class Item:
    """A function-like item: `start` of its first word, `body` its opening brace (None without one), `end` behind it."""

    start: int
    body: int | None
    end: int


def item_at(code: str, start: int, language: str) -> Item:
    """The item whose keyword stands at `start` of blanked code.

    Raises:
        UnreadableError: brackets that do not match.
    """
    place, heads = start, 0  # heads: a `match` or an `if` whose block has not come yet
    while place < len(code):
        character = code[place]
        if word := _HEADS[language].match(code, place):
            heads += 1
            place = word.end()
        elif character in "([":
            place = closing_of(code, place) + 1
        elif character == "{":
            end = closing_of(code, place) + 1
            clause = heads > 0 or code.startswith("{:", place) or _WANTS_MORE[language].search(code, start, place)
            if not clause and _ITEMS[language].match(code[end:].lstrip()):
                return Item(start, place, end)
            heads = max(0, heads - 1)
            place = end
        elif character == ";" and language == "Verus":
            return Item(start, None, place + 1)
        elif character == "}":
            return Item(start, None, place)
        else:
            if place > start and language == "Dafny" and _begins_item(code, place):
                return Item(start, None, place)
            place += 1
    return Item(start, None, len(code))


_DAFNY_ITEM = re.compile(r"(?:ghost\s+|static\s+)?(?:method|lemma|function|predicate|class|module|datatype|const)\b")


def _begins_item(code: str, place: int) -> bool:
    """Whether a bodyless Dafny item ends here because another begins on a line of its own."""
    return code[:place].rstrip(" \t").endswith("\n") and _DAFNY_ITEM.match(code, place) is not None
