"""Programs taken apart, by hand and on the real ones."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from selfplay.sandbox import dafny_text, verus_text
from selfplay.sandbox.source_text import UnreadableError, blanked
from selfplay.sandbox.split import split_program, unwrapped

DATA = Path(os.environ.get("SELFPLAY_SHARED", Path(__file__).parents[3] / "shared")) / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the collections of real programs are not here")

DAFNY = """// a { comment
function Twice(x: int): int { 2 * x }
method F(s: set<int>, x: int) returns (r: int)
  requires s != {} && "}" != "{"
  modifies {}
  ensures r == match x { case 0 => 0 case _ => Twice(x) }
{
  r := 2 * x; // }
}
lemma L() ensures true { }
"""


def test_braces_of_clauses_are_no_body() -> None:
    split = split_program(DAFNY, "Dafny")
    assert split.answer == "{\n  r := 2 * x; // }\n}"
    assert split.spec.startswith("// a { comment\nfunction Twice")
    assert split.spec.endswith("case _ => Twice(x) }")
    assert "lemma L() ensures true { }" in split.spec
    dafny_text.check_spec_text(split.spec)
    dafny_text.check_answer(split.answer)


VERUS = """use vstd::prelude::*;
use std::collections::HashMap;
fn main() { println!("{}", f(1)); }
verus! {
spec fn twice(x: int) -> int { 2 * x }
pub fn f(x: u8) -> (r: u16)
    requires x < 10, '{' != '}',
    ensures r == (if x > 0 { twice(x as int) } else { 0 }), match x { 0 => true, _ => r > 0 },
{
    let s = r#"}"#;
    2 * (x as u16)
}
proof fn later() ensures true { }
} // verus!
"""


def test_verus_is_unwrapped_and_its_imports_kept() -> None:
    split = split_program(VERUS, "Verus")
    assert split.spec.startswith("use vstd::prelude::*;\nuse std::collections::HashMap;\n")
    assert split.spec.endswith("_ => r > 0 },")
    assert "proof fn later() ensures true { }" in split.spec
    assert split.answer is not None
    assert split.answer.splitlines()[-2].strip() == "2 * (x as u16)"
    verus_text.check_spec_text(split.spec)
    verus_text.check_answer(split.answer)


@pytest.mark.parametrize(
    ("text", "language", "why"),
    [
        ("method F() { }", "Dafny", "no item with a postcondition"),
        ("method F() ensures true { /* }", "Dafny", "unclosed comment"),
        ("method F() ensures true { ( }", "Dafny", "do not match"),
        ("fn f() ensures true { }", "Verus", "0 verus! blocks"),
        ("verus! { } static A: u8 = 1;", "Verus", "outside of verus!"),
        ('verus! { fn f() ensures true { r#" } }', "Verus", "unclosed raw string"),
    ],
)
def test_what_cannot_be_read_says_why(text: str, language: str, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        split_program(text, language)


def test_blanking_keeps_every_place() -> None:
    for text, language in ((DAFNY, "Dafny"), (VERUS, "Verus")):
        code = blanked(text, language)
        assert len(code) == len(text)
        assert [i for i, c in enumerate(code) if c == "\n"] == [i for i, c in enumerate(text) if c == "\n"]
        assert "comment" not in code
    assert unwrapped(VERUS).count("fn main") == 0


def finished(name: str, key: str) -> Iterator[tuple[str, str]]:
    with (DATA / name).open(encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            if entry[key] and not ("verus" in name and "TODO" in entry[key]):  # the unfinished say so
                yield entry["id"], entry[key]


# Those that assume something, after a look at each: two trusted externals, one method that need not end.
RIGHTLY_REFUSED = {"human_eval_076", "human_eval_134", "123-get_odd_collatz"}
# Without a postcondition, or a library without a program: no task.
NO_TASK = {"Misc/arg_free", "Misc/basic_nonlinear", "Misc/havoc_inline_post", "Misc/len_intersect", "lib"}


@needs_data
@pytest.mark.parametrize(
    ("name", "key", "language", "count"),
    [
        ("verus_bench.jsonl", "verified", "Verus", 149),
        ("human_eval_verus.jsonl", "source", "Verus", 89),
        ("cloverbench_dafny.jsonl", "source", "Dafny", 62),
        ("humaneval_dafny.jsonl", "source", "Dafny", 132),
    ],
)
def test_no_finished_program_is_refused_wrongly(name: str, key: str, language: str, count: int) -> None:
    rules = {"Dafny": dafny_text, "Verus": verus_text}[language]
    seen, refused = 0, set()
    for identifier, text in finished(name, key):
        seen += 1
        try:
            split = split_program(text, language)
            assert split.answer is not None
            rules.check_spec_text(split.spec)
            rules.check_answer(split.answer)
        except (UnreadableError, ValueError):
            refused.add(identifier)
    assert seen == count
    assert refused <= RIGHTLY_REFUSED | NO_TASK
