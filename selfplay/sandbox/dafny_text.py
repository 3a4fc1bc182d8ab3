"""What Dafny accepts and a judge must not: bans on the text, before Dafny sees it.

Dafny verifies programs with `{:verify false}`, `{:axiom}`, `:| assume`, `decreases *` and more, even with /noCheating.
"""

from __future__ import annotations

import re

from selfplay.sandbox.source_text import Item, UnreadableError, item_at


class ForbiddenError(ValueError):
    """A text with a way around the proof, or that is not one specification or one body."""


_BANNED = re.compile(
    r"\b(?:assume|axiom|expect|include|extern|print)\b|\{\s*:(?!\s*(?:trigger|induction)\b)|\bdecreases\s*\*"
    r"|#(?:if|else|elsif|endif)"
)
_DECLARATIONS = re.compile(
    r"\b(?:method|function|predicate|lemma|colemma|constructor|class|trait|module|datatype|codatatype|newtype|type"
    r"|iterator|import|export|const|abstract|copredicate)\b"
)
_WITH_BODY = frozenset(("method", "function", "predicate", "lemma", "constructor"))
_CONTEXT = _WITH_BODY | {"datatype", "type", "const", "class"}
_PIECE = re.compile(
    r"""//[^\r\n]*|/\*|@"(?:[^"]|"")*"|"(?:\\.|[^"\\\n])*"|(?<![A-Za-z0-9_'?])'(?:\\.|[^'\\\n])'""", re.DOTALL
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_STRANGE = re.compile(r"\r(?!\n)|[^\t\n\r\x20-\x7e]")


def check_spec_text(spec: str) -> None:
    """Refuses bans, and anything that does not end with one method with `ensures` and without a body.

    Before it may stand what it speaks of: functions, predicates, lemmas and methods with their bodies, classes,
    datatypes, type synonyms and constants.

    Raises:
        ForbiddenError: with one line that says why.
    """
    code = _checked(spec)
    try:
        items = declarations(code)
    except UnreadableError as error:
        raise ForbiddenError(str(error)) from error
    strange = next((kind for kind, _ in items if kind not in _CONTEXT), None)
    if strange:
        raise ForbiddenError(f"the specification declares a {strange}")
    if not items or items[-1][0] != "method" or items[-1][1].body is not None:
        raise ForbiddenError("the specification has to end with the header of a method")
    empty = next((kind for kind, item in items[:-1] if kind in _WITH_BODY and item.body is None), None)
    if empty:
        raise ForbiddenError(f"a {empty} without a body is an assumption")
    if not re.search(r"\bensures\b", code[items[-1][1].start :]):
        raise ForbiddenError("no_ensures: the method has no postcondition")


def declarations(code: str) -> list[tuple[str, Item]]:
    """Kind and place of each item of code without comments and literals, in order; those inside of others left out."""
    found: list[tuple[str, Item]] = []
    for word in _DECLARATIONS.finditer(code):
        if found and word.start() < found[-1][1].end:
            continue
        item = (
            item_at(code, word.start(), "Dafny") if word.group() in _WITH_BODY else Item(word.start(), None, word.end())
        )
        found.append((word.group(), item))
    return found


def check_answer(answer: str) -> None:
    """Refuses bans, declarations, and anything that is not one balanced block.

    Raises:
        ForbiddenError: with one line that says why.
    """
    code = _checked(answer).strip()
    if _DECLARATIONS.search(code):
        raise ForbiddenError("the answer declares something")
    depth = 0
    for index, character in enumerate(code):
        depth += (character == "{") - (character == "}")
        if depth <= 0 and index < len(code) - 1:
            raise ForbiddenError("the answer is not one block")
    if not code.startswith("{") or depth != 0:
        raise ForbiddenError("the answer is not one block")


def stripped(text: str) -> str:
    """The text without comments and string contents.

    Raises:
        ForbiddenError: characters or comments that could hide something.
    """
    return _strip(text)[1]


def _checked(text: str) -> str:
    """The text without comments and string contents, after the bans; those hold inside strings too."""
    with_strings, code = _strip(text)
    for seen in (with_strings, code):
        banned = _BANNED.search(seen)
        if banned:
            raise ForbiddenError(f"`{' '.join(banned.group().split())}` is forbidden")
    return code


def _strip(text: str) -> tuple[str, str]:
    """The text without comments, and that without string and character literals too."""
    if "#" in text and re.search(r"^\s*#", text, re.M):
        raise ForbiddenError("preprocessor directives are forbidden")
    kept: list[str] = []
    bare: list[str] = []
    done = 0
    while found := _PIECE.search(text, done):
        kept.append(text[done : found.start()])
        bare.append(text[done : found.start()])
        end = _comment_end(text, found.start()) if found.group() == "/*" else found.end()
        if not found.group().startswith("/"):
            kept.append(found.group())
            bare.append('""')
        elif re.search(r"\r(?!\n)|\0", text[found.start() : end]):
            raise ForbiddenError("a control character in a comment")
        kept.append(" ")
        bare.append(" ")
        done = end
    kept.append(text[done:])
    bare.append(text[done:])
    strange = _STRANGE.search("".join(kept))
    if strange:
        raise ForbiddenError(f"{strange.group()!r} outside a comment")
    return "".join(kept), "".join(bare)


def _comment_end(text: str, start: int) -> int:
    level = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        level += 1 if edge.group() == "/*" else -1
        if level == 0:
            return edge.end()
    raise ForbiddenError("an unclosed comment")


_WORDS = """method lemma function returns requires ensures decreases reads modifies int nat bool real char string seq
set map multiset array true false if then else forall exists old fresh in null"""
_KEYWORDS = frozenset(_WORDS.split())
_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|([A-Za-z_][A-Za-z0-9_'?]*)|(\d[\d_.]*|<==>|==>|<==|[<>=!]=|&&|\|\||:=|\S)", re.DOTALL
)


def normal_form(spec: str) -> str:
    """Tokens with names, but for members after a dot, numbered in order of appearance; without comments."""
    numbers: dict[str, str] = {}
    out: list[str] = []
    for word, other in _TOKEN.findall(spec):
        if word:
            member = out[-1:] in (["."], ["::"])  # of a library or a type: another name would be another thing
            out.append(word if member or word in _KEYWORDS else numbers.setdefault(word, f"v{len(numbers)}"))
        elif other:
            out.append(other)
    return " ".join(out)
