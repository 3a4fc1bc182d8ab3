"""Specifications as tokens: shingles for MinHash, and the two normal forms that catch superficial rewrites.

The lexer is that of the Dafny/Verus family (identifiers, numbers, the usual multi-character operators); comments are
dropped, so that a comment cannot pass for novelty. It never fails: an unknown character is a token of its own.
"""

from __future__ import annotations

import re
from functools import lru_cache

_TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<word>[A-Za-z_][A-Za-z0-9_'?]*)|(?P<number>\d+(?:\.\d+)?)"
    r"|(?P<string>\"(?:\\.|[^\"\\])*\")|(?P<operator><==>|==>|<==|<=|>=|==|!=|&&|\|\||:=|:\||::|->|=>|\.\.|\S)",
    re.DOTALL,
)
_CLAUSES = frozenset(("requires", "ensures", "decreases", "modifies", "reads"))
# Words that are language, not names: keywords, types and constants of Dafny and Verus.
_KEYWORDS = (
    "method function predicate lemma returns requires ensures decreases modifies reads invariant forall exists "
    "if then else match case old fresh in true false null var let mut fn spec proof exec pub int nat bool real "
    "char string seq set map multiset array usize isize u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 Vec Seq Set Map "
    "Option Some None result"
)
KEYWORDS = frozenset(_KEYWORDS.split())


def tokens(text: str) -> list[str]:
    """Lexical tokens in order, without comments and white space."""
    return [m.group() for m in _TOKEN.finditer(text) if m.lastgroup != "comment"]


def clause_tokens(text: str) -> list[str]:
    """The tokens from the first clause on, or all of them when there is no clause."""
    words = tokens(text)
    start = next((i for i, word in enumerate(words) if word in _CLAUSES), 0)
    return words[start:]


def shingles(text: str, longest: int) -> set[str]:
    """All n-grams of 1 to `longest` clause tokens, joined by a space.

    Never empty: a text without any token gives {""}, so that two such texts are equal and not incomparable.
    """
    words = clause_tokens(text)
    grams = {" ".join(words[i : i + n]) for n in range(1, longest + 1) for i in range(len(words) - n + 1)}
    return grams or {""}


def jaccard(a: set[str], b: set[str]) -> float:
    """|A n B| / |A u B|, in [0, 1]."""
    return len(a & b) / len(a | b)


@lru_cache(maxsize=4096)
def rename_form(text: str) -> str:
    """The text with its names numbered in order of appearance; equal for two texts that differ in names alone."""
    return _normalised(text, literal=None)


@lru_cache(maxsize=4096)
def structural_form(text: str) -> str:
    """The text with names numbered by appearance and every literal replaced: what is left is its structure."""
    return _normalised(text, literal="0")


def _normalised(text: str, literal: str | None) -> str:
    names: dict[str, str] = {}
    out: list[str] = []
    for match in _TOKEN.finditer(text):
        kind, word = match.lastgroup, match.group()
        if kind == "comment":
            continue
        if kind == "word" and word not in KEYWORDS:
            word = names.setdefault(word, f"v{len(names)}")
        elif kind in ("number", "string") and literal is not None:
            word = literal
        out.append(word)
    return " ".join(out)


def rename_only(text: str, parent: str) -> bool:
    """Whether `text` is `parent` with other names (comments and layout apart)."""
    return rename_form(text) == rename_form(parent)
