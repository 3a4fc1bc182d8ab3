"""Normal forms of specifications, for telling copies from new ones. Both are of the syntax tree: comments, spacing and
redundant parentheses make no difference, and preconditions come before postconditions.
"""

from __future__ import annotations

from collections.abc import Callable

from selfplay.sandbox.dafny_lite.lexer import tokenise
from selfplay.sandbox.dafny_lite.parser import parse_header
from selfplay.sandbox.dafny_lite.printer import print_header
from selfplay.sandbox.dafny_lite.resolve import resolve_header


def alpha_normal_form(spec: str) -> str:
    """`spec` with its method called `M` and its variables `v0`, `v1`, ... in order of declaration.

    Two specifications have one normal form exactly when they differ in names and layout only.

    Raises:
        MalformedError: `spec` does not parse or resolve.
    """
    return _normal(spec, str)


def structure(spec: str) -> str:
    """The alpha normal form with every integer literal replaced by 0.

    Raises:
        MalformedError: `spec` does not parse or resolve.
    """
    return _normal(spec, lambda value: "0")


def _normal(spec: str, number: Callable[[int], str]) -> str:
    header = parse_header(tokenise(spec))
    resolve_header(header)
    names = {name.name: f"v{index}" for index, name in enumerate([*header.ins, *header.outs])}
    header.name = "M"
    return print_header(header, names.__getitem__, number)
