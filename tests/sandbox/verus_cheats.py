"""Ways around a proof in Verus, as (name, specification, answer); none may reach a verdict of VERIFIED.

The fake binary of the tests says "verified" to everything: what is refused here is refused by the text alone.
"""

from __future__ import annotations

MAX = "fn max(x: u64, y: u64) -> (r: u64)\n    ensures\n        r >= x && r >= y,\n        r == x || r == y,"
HONEST = "{ if x >= y { x } else { y } }"
F = "fn f(x: u64) -> (r: u64)\n    ensures\n        r > 1,"

ANSWERS: dict[str, str] = {
    "assume": "{ assume(false); 0 }",
    "assume_claim": "{ assume(x >= y); x }",
    "assume_spaced": "{ assume (false); 0 }",
    "assume_newline": "{ assume\n(false); 0 }",
    "assume_in_proof_block": "{ proof { assume(false); } 0 }",
    "assume_in_assert_by": "{ assert(false) by { assume(false); } 0 }",
    "assume_split_by_comment": "{ assume/* */(false); 0 }",
    "assume_after_comment": "{ // fine\n assume(false); 0 }",
    "assume_after_nested_comment": "{ /* /* */ */ assume(false); 0 }",
    "assume_after_string": '{ let s = "//"; assume(false); 0 }',
    "assume_after_raw_string": '{ let s = r#"/*"#; assume(false); 0 }',
    "assume_after_char": "{ let c = '\"'; assume(false); let d = '\"'; 0 }",
    "assume_after_escaped_quote": '{ let s = "\\""; assume(false); let t = ""; 0 }',
    "admit": "{ admit(); 0 }",
    "admit_in_proof": "{ proof { admit(); } x }",
    "path_to_assume": "{ vstd::prelude::assume(false); 0 }",
    "path_to_admit": "{ builtin::admit(); 0 }",
    "assume_under_another_name": "{ use vstd::prelude::assume as f; f(false); 0 }",
    "external_body": "{ #[verifier::external_body] fn g() -> (r: u64) ensures false { 0 } g() }",
    "external_attribute": "{ #[verifier::external] fn g() {} x }",
    "old_attribute": "{ #[verifier(external_body)] fn g() -> (r: u64) ensures false { 0 } g() }",
    "inner_attribute": "{ #![verifier::exec_allows_no_decreases_clause] loop {} }",
    "spaced_attribute": "{ # [ verifier :: external_body ] fn g() {} x }",
    "rlimit": "{ #[verifier::rlimit(infinity)] { x } }",
    "proof_function": "{ proof fn lie() ensures false { assume(false); } lie(); 0 }",
    "axiom": "{ axiom fn lie() ensures false; lie(); 0 }",
    "nested_function": "{ fn g() -> u64 { 0 } g() }",
    "nested_trait": "{ trait T { proof fn lie() ensures false; } 0 }",
    "nested_impl": "{ struct S; impl S { } 0 }",
    "nested_module": "{ mod m { } 0 }",
    "nested_macro": "{ macro_rules! a { () => { assume(false) } } a!(); 0 }",
    "unimplemented": "{ unimplemented!() }",
    "unimplemented_brackets": "{ unimplemented![] }",
    "todo": "{ todo!() }",
    "panic": '{ panic!("never") }',
    "unsafe": "{ unsafe { 0 } }",
    "include": '{ include!("/etc/passwd") }',
    "environment": '{ let s = env!("HOME"); 0 }',
    "inline_air": '{ inline_air_stmt("(assume false)"); 0 }',
    "extern": '{ extern "C" { fn abort(); } 0 }',
    "assume_termination": "{ assume_termination(); loop {} }",
    "second_function": "{ x } fn g() {}",
    "closes_early": "{ x } } fn g() { ",
    "closes_the_wrapper": "{ x } } fn main() {} verus! { fn g() { ",
    "no_block": "x",
    "unclosed_comment": "{ x /* }",
    "unclosed_raw_string": '{ let s = r#"; x }',
    "not_ascii": "{ x\u2028 }",
    "static": "{ static A: u64 = 0; x }",
    "constant": "{ const A: u64 = 0; x }",
    "print": '{ println!("verified"); x }',
    "std": "{ std::process::exit(0); x }",
}

SPECIFICATIONS: dict[str, str] = {
    "assumed_specification": "assume_specification[u64::max](x: u64) -> (r: u64) ensures r > x;\n\n" + F,
    "external_function": "#[verifier::external_fn_specification]\nfn g(x: u64) -> (r: u64) ensures r > x { x }\n\n" + F,
    "external_body_helper": "#[verifier::external_body]\nproof fn lie() ensures false { }\n\n" + F,
    "axiom_helper": "axiom fn lie() ensures false;\n\n" + F,
    "assumed_helper": "proof fn lie() ensures false { assume(false); }\n\n" + F,
    "admitted_helper": "proof fn lie() ensures false { admit(); }\n\n" + F,
    "no_ensures": "fn f(x: u64) -> (r: u64)\n    requires\n        x > 1,",
    "no_function": "spec const A: u64 = 1;",
    "no_decreases": "#![verifier::exec_allows_no_decreases_clause]\n" + F,
    "unknown_attribute": "#[verifier::custom_req_err]\n" + F,
    "macro": "macro_rules! a { () => { } }\n" + F,
}


def cheats() -> list[tuple[str, str, str]]:
    """All of them."""
    answers = [(f"answer_{name}", MAX, answer) for name, answer in ANSWERS.items()]
    return answers + [(f"spec_{name}", spec, "{ 2 }") for name, spec in SPECIFICATIONS.items()]
