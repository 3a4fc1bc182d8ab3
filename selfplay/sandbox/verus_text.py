"""What Verus accepts and a judge must not: bans on the text, before Verus sees it.

`--no-cheating` stops `assume`, `admit`, `external_body` and their kin, but not a loop that is excused from terminating,
an attribute that changes how much is proved, or a macro that hides any of these.
"""

from __future__ import annotations

import re

from selfplay.sandbox.source_text import UnreadableError, blanked, closing_of


class ForbiddenError(ValueError):
    """A text with a way around the proof, or that is not one specification or one body."""


_BANNED = re.compile(
    r"\b(?:assume|admit|assume_|assume_specification|assume_termination|axiom|external\w*|no_unwind|unsafe|extern"
    r"|exec_allows_no_decreases_clause|inline_air\w*|unimplemented|todo|macro_rules|asm|global_asm|verus_proof_macro\w*"
    r"|include(?:_str|_bytes)?\s*!|env\s*!|option_env\s*!)(?![A-Za-z0-9_])"
)
_BANNED_CALLS = re.compile(r"\b(?:panic|print|println|eprint|eprintln|std\s*::|core\s*::|alloc\s*::)")
_ATTRIBUTE = re.compile(r"#\s*!?\s*\[")
# In a curated or gated specification: hints to the prover that make nothing true.
_HARMLESS = re.compile(
    r"derive\s*\([\w\s,]*\)$|(?:trigger|auto|all_triggers|inline|allow|warn|verusfmt|must_use|verifier\s*::\s*(?:"
    r"loop_isolation|spinoff_prover|memoize|rlimit|when_used_as_spec|truncate|nonlinear|bit_vector|integer_ring|opaque"
    r"|inline|ext_equal|type_invariant|reject_recursive_types\w*|accept_recursive_types))\b"
)
_IN_ANSWERS = re.compile(r"(?:trigger|auto|all_triggers|allow|verifier\s*::\s*(?:loop_isolation|truncate|nonlinear))\b")
_NESTED = re.compile(r"\b(?:fn|struct|enum|impl|trait|mod|use|static|type|const|union|macro)\b")
_STRANGE = re.compile(r"[^\t\n\r\x20-\x7e]")


def check_spec_text(spec: str) -> None:
    """Refuses bans, and a specification that does not end with one header with `ensures`.

    Raises:
        ForbiddenError: with one line that says why.
    """
    code = _checked(spec, _HARMLESS)
    head = code[max((found.start() for found in re.finditer(r"\bfn\b", code)), default=len(code)) :]
    if not head:
        raise ForbiddenError("the specification has no function")
    if not re.search(r"\bensures\b", head):
        raise ForbiddenError("no_ensures: the function has no postcondition")


def check_answer(answer: str) -> None:
    """Refuses bans, nested items, and anything that is not one balanced block.

    Raises:
        ForbiddenError: with one line that says why.
    """
    code = _checked(answer, _IN_ANSWERS).strip()
    if not code.startswith("{") or closing_of(code, 0) != len(code) - 1:
        raise ForbiddenError("the answer is not one block")
    nested = _NESTED.search(re.sub(r"\b(?:broadcast\s+)?use\s[^;{]*(?:\{[^}]*\})?\s*;", "", code))
    if nested:
        raise ForbiddenError(f"the answer declares something: `{nested.group()}`")
    called = _BANNED_CALLS.search(code)
    if called:
        raise ForbiddenError(f"`{called.group()}` is forbidden in an answer")


def _checked(text: str, attributes: re.Pattern[str]) -> str:
    """The text without comments and string contents, after the bans."""
    try:
        code = blanked(text, "Verus")
        strange = _STRANGE.search(code)
        if strange:
            raise ForbiddenError(f"{strange.group()!r} outside of a comment")
        banned = _BANNED.search(code)
        if banned:
            raise ForbiddenError(f"`{' '.join(banned.group().split())}` is forbidden")
        for found in _ATTRIBUTE.finditer(code):
            inside = code[found.end() : closing_of(code, found.end() - 1)].strip()
            if not attributes.match(inside):
                raise ForbiddenError(f"the attribute `{inside[:40]}` is forbidden")
    except UnreadableError as error:
        raise ForbiddenError(str(error)) from error
    return code


_WORDS = """fn requires ensures decreases returns recommends opens_invariants forall exists choose as in is has
matches let mut if else match while for loop return spec proof exec ghost tracked open closed pub int nat bool char str
String usize isize u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 Vec Seq Set Map Multiset Option Some None Result Ok Err Ghost
Tracked true false old result invariant len view self Self use vstd prelude"""
_KEYWORDS = frozenset(_WORDS.split())
_TOKEN = re.compile(
    r"([A-Za-z_][A-Za-z0-9_]*)|(\d[\w.]*|<==>|==>|<==|=~=|===|!==|[<>=!]=|&&&|\|\|\||&&|\|\||->|=>|::|\S)"
)


def normal_form(spec: str) -> str:
    """Tokens with names, but for members after a dot, numbered in order of appearance; without comments."""
    numbers: dict[str, str] = {}
    out: list[str] = []
    for word, other in _TOKEN.findall(blanked(spec, "Verus", strings=False)):
        if word:
            member = out[-1:] in (["."], ["::"])  # of a library or a type: another name would be another thing
            out.append(word if member or word in _KEYWORDS else numbers.setdefault(word, f"v{len(numbers)}"))
        elif other:
            out.append(other)
    return " ".join(out)
