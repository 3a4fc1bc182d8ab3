"""Text to tokens: everything outside the subset stops here, before any grammar is tried.

The lexer reads what Dafny's own scanner reads (longest match, nested comments, LF or CRLF lines) and refuses each
place where that scanner or its `#if` preprocessor would see other tokens than a reader does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from selfplay.sandbox.dafny_lite.errors import MalformedError, Reason

MAX_CHARS = 20_000
MAX_TOKENS = 4_000
MAX_NESTING = 50  # brackets of either kind
MAX_DIGITS = 30  # of one integer literal

_KEYWORDS_TEXT = """
    method returns requires ensures var if then else while invariant decreases return assert int nat bool true
    false
"""
KEYWORDS = frozenset(_KEYWORDS_TEXT.split())

# Words that Dafny 2.3 to 4 reserve and that the subset has no use for.
_RESERVED_TEXT = """
    abstract allocated as assume axiom break by calc case char class codatatype colemma const constructor
    continue copredicate datatype downto exists expect export extends extern fixpoint for forall free fresh
    function ghost greatest hint implements import in include inductive is iset imap iterator label least
    lemma map match missing modifies modify module multiset nameonly new newtype null object old opened opaque
    ORDINAL override predicate print protected provides reads real refines reveal reveals seq set static
    string this to trait twostate type unchanged unsound verify where witness yield yields
"""
RESERVED = frozenset(_RESERVED_TEXT.split())
# `array`, `array3`, `bv8`: type names with a number in them.
_RESERVED_PATTERN = re.compile(r"(?:array|bv)[0-9]*")

_COMMENT = re.compile(r"//[^\r\n]*|/\*")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
# Boogie drops lines between these before Dafny's scanner runs, even inside comments.
_DIRECTIVE = re.compile(r"#(?:if|else|elsif|endif)")
_STRANGE = re.compile(r"\r(?!\n)|[^\t\n\r\x20-\x7e]")

_TOKEN = re.compile(
    r"""[ \t\r\n]+
    |(?P<word>[A-Za-z][A-Za-z0-9_]*)
    |(?P<int>[0-9]+(?:_[0-9]+)*(?![A-Za-z0-9_]))
    |(?P<bad>-->|->|=>|<-|~>|<<|>>|!!|::|:\||:-|\.\.|!in\b)
    |(?P<op><==>|==>|<==|:=|==|!=|<=|>=|&&|\|\||[-+*/%<>!(){},;:])""",
    re.VERBOSE,
)

OPERATORS = {
    "<==>": "IFF", "==>": "IMPLIES", "<==": "EXPLIES", ":=": "ASSIGN", "==": "EQ", "!=": "NE", "<=": "LE", ">=": "GE",
    "&&": "AND", "||": "OR", "-": "SUB", "+": "ADD", "*": "MUL", "/": "DIV", "%": "MOD", "<": "LT", ">": "GT",
    "!": "NOT", "(": "LPAR", ")": "RPAR", "{": "LBRACE", "}": "RBRACE", ",": "COMMA", ";": "SEMI", ":": "COLON",
}  # fmt: skip
NAME, INTEGER = "NAME", "INTEGER"
TERMINALS = [NAME, INTEGER, *OPERATORS.values(), *(word.upper() for word in sorted(KEYWORDS))]


@dataclass(slots=True)
class Lexeme:
    """One token: its terminal's name, its text, and where it starts."""

    kind: str
    text: str
    offset: int


def tokenise(text: str) -> list[Lexeme]:
    """The tokens of `text`, comments stripped.

    Raises:
        MalformedError: for anything that is no token of the subset, and for texts over the limits.
    """
    if len(text) > MAX_CHARS:
        raise MalformedError(Reason.LIMIT, f"more than {MAX_CHARS} characters")
    code = strip_comments(text)
    lexemes: list[Lexeme] = []
    offset = 0
    match = _TOKEN.match
    while offset < len(code):
        found = match(code, offset)
        if found is None:
            raise MalformedError(Reason.LEXICAL, f"{code[offset]!r} is outside the subset", offset)
        if found.lastgroup is not None:
            lexemes.append(_lexeme(found.lastgroup, found.group(), offset))
        offset = found.end()
    if len(lexemes) > MAX_TOKENS:
        raise MalformedError(Reason.LIMIT, f"more than {MAX_TOKENS} tokens")
    _check_nesting(lexemes)
    return lexemes


def _lexeme(group: str, text: str, offset: int) -> Lexeme:
    if group == "op":
        return Lexeme(OPERATORS[text], text, offset)
    if group == "word":
        if text in KEYWORDS:
            return Lexeme(text.upper(), text, offset)
        if text in RESERVED or _RESERVED_PATTERN.fullmatch(text):
            raise MalformedError(Reason.LEXICAL, f"`{text}` is outside the subset", offset)
        return Lexeme(NAME, text, offset)
    if group == "int":
        if len(text) > MAX_DIGITS:
            raise MalformedError(Reason.LIMIT, f"an integer of more than {MAX_DIGITS} digits", offset)
        return Lexeme(INTEGER, text, offset)
    raise MalformedError(Reason.LEXICAL, f"`{text}` is outside the subset", offset)


def strip_comments(text: str) -> str:
    """`text` with each comment replaced by as many spaces, so that offsets stay; block comments nest.

    Raises:
        MalformedError: on an unclosed comment, a control character, a bare CR, or non-ASCII outside comments.
    """
    directive = _DIRECTIVE.search(text)
    if directive:
        raise MalformedError(Reason.LEXICAL, "preprocessor directives are outside the subset", directive.start())
    pieces: list[str] = []
    done = 0
    while found := _COMMENT.search(text, done):
        end = found.end() if found.group() != "/*" else _block_comment_end(text, found.start())
        comment = text[found.start() : end]
        for strange in _STRANGE.finditer(comment):
            if not strange.group().isprintable():
                raise MalformedError(Reason.LEXICAL, "a control character", found.start() + strange.start())
        pieces += (text[done : found.start()], re.sub(r"[^\n]", " ", comment))
        done = end
    pieces.append(text[done:])
    code = "".join(pieces)
    strange_code = _STRANGE.search(code)
    if strange_code:
        raise MalformedError(Reason.LEXICAL, f"{strange_code.group()!r} is outside the subset", strange_code.start())
    return code


def _block_comment_end(text: str, start: int) -> int:
    level = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        level += 1 if edge.group() == "/*" else -1
        if level == 0:
            return edge.end()
    raise MalformedError(Reason.LEXICAL, "an unclosed comment", start)


def _check_nesting(lexemes: list[Lexeme]) -> None:
    """Bracket depth, and `a < b, c > (d)`: Dafny reads that as a call of `a` with type arguments `b, c`."""
    depth = 0
    stage = [0]  # per depth: 1 after `<`, 2 after a comma that follows it
    for lexeme in lexemes:
        kind = lexeme.kind
        if kind in ("LPAR", "LBRACE"):
            depth += 1
            stage.append(0)
            if depth > MAX_NESTING:
                raise MalformedError(Reason.LIMIT, f"brackets nested deeper than {MAX_NESTING}", lexeme.offset)
        elif kind in ("RPAR", "RBRACE"):
            depth -= 1
            stage.pop()
            if depth < 0:
                raise MalformedError(Reason.SYNTAX, f"unmatched `{lexeme.text}`", lexeme.offset)
            if kind == "RBRACE":
                stage[-1] = 0
        elif kind == "LT":
            stage[-1] = max(stage[-1], 1)
        elif kind == "COMMA":
            stage[-1] *= 2 if stage[-1] == 1 else 1
        elif kind == "GT" and stage[-1] == 2:
            raise MalformedError(Reason.SYNTAX, "put comparisons in a list in parentheses", lexeme.offset)
        elif kind == "SEMI":
            stage[-1] = 0
