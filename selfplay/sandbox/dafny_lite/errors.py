"""Why a text is outside the subset, and where."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Machine-readable reasons: the text before the first `": "` of a judgement's detail. Stable across releases."""

    LEXICAL = "lexical"  # a character, keyword or operator outside the subset
    LIMIT = "limit"  # longer, deeper or with larger literals than is read
    SYNTAX = "syntax"  # does not parse
    SCOPE = "scope"  # an unknown, duplicate or unassignable name
    TYPE = "type"  # an operand or a value of the wrong type
    TERMINATION = "termination"  # a loop whose `decreases` has to be written

    NO_ENSURES = "no_ensures"  # the specification has no postcondition
    UNSAT_REQUIRES = "unsat_requires"  # no input satisfies the precondition
    UNSAT_ENSURES = "unsat_ensures"  # no result satisfies the postcondition, whatever the input
    VACUOUS = "vacuous"  # every result satisfies the postcondition, even without the precondition
    IMPLIED_BY_REQUIRES = "implied_by_requires"  # the precondition alone implies the postcondition
    RESULT_UNUSED = "result_unused"  # the postcondition does not depend on some result
    IDLE_CLAUSE = "idle_clause"  # one clause always holds, beside others that say something
    UNDEFINED = "undefined"  # a clause divides by what may be zero
    UNDECIDED = "undecided"  # the resource limit ran out before one of the questions was answered

    OBLIGATION = "obligation"  # a proof obligation of the program does not hold


class MalformedError(ValueError):
    """A text outside the subset. `offset` counts characters from the start of the text it was found in."""

    def __init__(self, reason: Reason, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.offset = offset

    def describe(self, part: str, text: str) -> str:
        """One line: `reason: part line:column: message`, with `part` "spec" or "answer"."""
        return f"{self.reason}: {part} {line_column(text, self.offset)}: {self.message}"


def line_column(text: str, offset: int) -> str:
    """`line:column`, both counted from 1, of a character offset."""
    before = text[:offset]
    return f"{before.count(chr(10)) + 1}:{offset - (before.rfind(chr(10)) + 1) + 1}"
