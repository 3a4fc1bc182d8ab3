"""Normal forms: what counts as a renaming, and what as the same structure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfplay.sandbox.dafny_lite import MalformedError, alpha_normal_form, structure
from selfplay.sandbox.dafny_lite.lexer import RESERVED, tokenise
from selfplay.sandbox.dafny_lite.parser import parse_header
from selfplay.sandbox.dafny_lite.printer import print_header

SPEC = "method Max(x: int, y: nat) returns (r: int)\n  requires x > 0\n  ensures r >= x && r >= y + 2"


def test_by_hand() -> None:
    assert alpha_normal_form(SPEC) == (
        "method M(v0: int, v1: nat) returns (v2: int)\n  requires v0 > 0\n  ensures (v2 >= v0) && (v2 >= (v1 + 2))"
    )
    assert structure(SPEC) == alpha_normal_form(SPEC).replace("2)", "0)")


def test_names_layout_comments_and_parentheses_make_no_difference() -> None:
    other = "method Top(a:int,b:nat) returns(z:int) ensures ((z) >= a) && z >= (b + 2) requires (a > 0) // the top"
    assert alpha_normal_form(other) == alpha_normal_form(SPEC)


def test_a_swap_of_variables_and_another_literal_do() -> None:
    swapped = SPEC.replace("r >= x && r >= y + 2", "r >= y && r >= x + 2")
    assert alpha_normal_form(swapped) != alpha_normal_form(SPEC)
    assert structure(swapped) != structure(SPEC)
    larger = SPEC.replace("+ 2", "+ 3")
    assert alpha_normal_form(larger) != alpha_normal_form(SPEC)
    assert structure(larger) == structure(SPEC)


names = st.from_regex(r"\A[a-z][a-z0-9_]{0,5}\Z").filter(lambda name: name not in RESERVED and name.isidentifier())


@given(st.lists(names, min_size=4, max_size=4, unique=True))
def test_any_renaming_has_the_same_normal_form(new: list[str]) -> None:
    method, x, y, r = (f"{name}0" for name in new)
    renamed = f"method {method}({x}: int, {y}: nat) returns ({r}: int)\n requires {x} > 0\n"
    renamed += f" ensures {r} >= {x} && {r} >= {y} + 2"
    assert alpha_normal_form(renamed) == alpha_normal_form(SPEC)


def test_the_normal_form_is_its_own_and_prints_back() -> None:
    normal = alpha_normal_form(SPEC)
    assert alpha_normal_form(normal) == normal
    assert print_header(parse_header(tokenise(normal))) == normal


def test_what_does_not_parse_has_none() -> None:
    with pytest.raises(MalformedError):
        structure("method F(x: int) returns (r: int) ensures r == z")
