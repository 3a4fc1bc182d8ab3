"""Taking a finished program apart: what has to be proved, and the proof (specification and answer of `sandbox.base`).

The target is the last executable item with a postcondition. Everything else (functions, predicates, lemmas, other
methods) is context: it goes before the target's header, since neither language minds the order of declarations. So a
specification is one locked prefix, and the answer is the target's body.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from selfplay.sandbox.source_text import Item, UnreadableError, blanked, closing_of, item_at

_TARGET = {"Dafny": re.compile(r"\bmethod\b"), "Verus": re.compile(r"\bfn\b")}
_VERUS_WORDS_BEFORE = re.compile(r"((?:pub(?:\s*\([^)]*\))?|exec|unsafe|const)\s+)*$")
_GHOST_BEFORE = re.compile(r"(?:spec|proof|open|closed|uninterp|axiom)(?:\s*\([^)]*\))?\s+$")
_WRAPPER = re.compile(r"\bverus!\s*\{")
_MAIN = re.compile(r"\b(?:pub\s+)?fn\s+main\s*\(\s*\)\s*(?:->\s*\(\s*\)\s*)?\{")


@dataclass(frozen=True)
class Split:
    """`spec` is the locked prefix, which ends with the target's header and clauses; `answer` is its body, or None."""

    spec: str
    answer: str | None


def split_program(text: str, language: str) -> Split:
    """The specification and the body of a program's target.

    Raises:
        UnreadableError: no target, or a text whose parts cannot be told apart; one line that says why.
    """
    text = unwrapped(text) if language == "Verus" else text
    code = blanked(text, language)
    targets = [
        item
        for item in executable_items(code, language)
        if re.search(r"\bensures\b", code[item.start : _head_end(item)])
    ]
    if not targets:
        raise UnreadableError("no item with a postcondition")
    target = targets[-1]
    header = text[target.start : _head_end(target)].rstrip()
    before, after = text[: target.start].rstrip(), text[target.end :].strip()
    context = "\n\n".join(part for part in (before, after) if part)
    body = text[target.body : target.end] if target.body is not None else None
    return Split(f"{context}\n\n{header}" if context else header, body)


def unwrapped(text: str) -> str:
    """The items inside `verus! { ... }`, with the imports outside before them; a `main` outside is left out.

    Raises:
        UnreadableError: not exactly one block, or something else than imports and attributes outside.
    """
    code = blanked(text, "Verus")
    blocks = list(_WRAPPER.finditer(code))
    if len(blocks) != 1:
        raise UnreadableError(f"{len(blocks)} verus! blocks, not one")
    opened = blocks[0].end() - 1
    closed = closing_of(code, opened)
    outside = _without_main(code[: blocks[0].start()] + "\n" + code[closed + 1 :], empty_only=False)
    imports = re.findall(r"^\s*(use\s[^;]*;)", outside, re.M)
    left = re.sub(r"^\s*use\s[^;]*;|#!?\[[^\]]*\]", "", outside, flags=re.M).strip()
    if left:
        raise UnreadableError(f"code outside of verus!: {left.splitlines()[0][:60]!r}")
    return "\n".join([*imports, _without_main(text[opened + 1 : closed], empty_only=True).strip()])


def _without_main(text: str, *, empty_only: bool) -> str:
    """The text without its `fn main`: a demonstration that proves nothing."""
    code = blanked(text, "Verus")
    found = _MAIN.search(code)
    if not found:
        return text
    end = closing_of(code, found.end() - 1) + 1
    if empty_only and code[found.end() : end - 1].strip():
        return text
    return text[: found.start()] + text[end:]


def _head_end(item: Item) -> int:
    return item.body if item.body is not None else item.end


def executable_items(code: str, language: str) -> list[Item]:
    """Executable function-like items of blanked code in order; those inside of another's body are left out.

    Raises:
        UnreadableError: brackets that do not match.
    """
    found: list[Item] = []
    for word in _TARGET[language].finditer(code):
        if found and word.start() < found[-1].end:
            continue
        before = code[: word.start()]
        if language == "Verus":
            if _GHOST_BEFORE.search(before):
                continue
            modifiers = _VERUS_WORDS_BEFORE.search(before)
            start = modifiers.start() if modifiers else word.start()
        else:
            ghost = re.search(r"\b(?:ghost|static)\s+$", before)
            start = ghost.start() if ghost else word.start()
        item = item_at(code, word.start(), language)
        found.append(Item(start, item.body, item.end))
    return found
