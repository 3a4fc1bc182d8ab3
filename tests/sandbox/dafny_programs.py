"""Random programs in and around the subset, from a seed: straight-line code, loops, and mutants of both.

About half are right. The rest are right programs with a few tokens changed, so that most of them are wrong in one
small way: a bound off by one, an invariant or `decreases` gone, a nat below zero, another precedence, a name shadowed.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from dafny_loops import LOOPS


@dataclass(frozen=True)
class Program:
    spec: str
    answer: str


def generate(seed: int) -> Program:
    """The program of this seed."""
    rng = random.Random(seed)
    make = rng.choice((straight, straight, branching, loop, loop, assertions, nats))
    program = make(rng)
    if rng.random() < 0.5:
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            program = mutate(program, rng)
    return program


# -- expressions: text with random, often missing, parentheses ---------------------------------------------------------


class Expressions:
    """Random expressions over integer variables `ints` and boolean variables `bools`."""

    def __init__(self, rng: random.Random, ints: list[str], bools: list[str], parentheses: float = 0.7) -> None:
        self.rng, self.ints, self.bools, self.parentheses = rng, ints, bools, parentheses

    def wrap(self, text: str) -> str:
        return f"({text})" if self.rng.random() < self.parentheses else text

    def literal(self) -> str:
        return str(self.rng.choice((0, 1, 1, 2, 3, 5, 7)))

    def integer(self, depth: int) -> str:
        rng = self.rng
        if depth == 0 or rng.random() < 0.2:
            return rng.choice(self.ints) if self.ints and rng.random() < 0.75 else self.literal()
        kind = rng.randrange(10)
        a, b = self.wrap(self.integer(depth - 1)), self.wrap(self.integer(depth - 1))
        if kind < 5:
            return f"{a} {rng.choice('+-')} {b}"
        if kind == 5:
            return f"{a} * {rng.choice((self.literal(), '(-2)', '-3'))}"
        if kind < 8:
            divisor = rng.choice(("2", "3", "(-2)", "-3", "5", "1")) if rng.random() < 0.93 else b
            return f"{a} {rng.choice('/%')} {divisor}"
        if kind == 8:
            return f"-{a}"
        return self.wrap(f"if {self.boolean(depth - 1)} then {a} else {b}")

    def boolean(self, depth: int) -> str:
        rng = self.rng
        if depth == 0 or rng.random() < 0.1:
            if self.bools and rng.random() < 0.5:
                return rng.choice(self.bools)
            return f"{self.integer(0)} {rng.choice(('<', '<=', '==', '!=', '>', '>='))} {self.integer(0)}"
        kind = rng.randrange(9)
        if kind < 3:
            a, b = self.wrap(self.integer(depth - 1)), self.wrap(self.integer(depth - 1))
            return f"{a} {rng.choice(('<', '<=', '==', '!=', '>', '>='))} {b}"
        if kind == 3:
            ops = rng.choice((("<", "<="), ("==", "<"), (">", ">="), ("<=", "=="), ("<", ">"), ("==", "!=")))
            parts = [self.wrap(self.integer(depth - 1)) for _ in range(3)]
            return f"{parts[0]} {ops[0]} {parts[1]} {ops[1]} {parts[2]}"
        a, b = self.wrap(self.boolean(depth - 1)), self.wrap(self.boolean(depth - 1))
        if kind < 7:
            return f"{a} {rng.choice(('&&', '&&', '||', '||', '==>', '<==', '<==>', '=='))} {b}"
        if kind == 7:
            return f"!{a}"
        return self.wrap(f"if {self.boolean(depth - 1)} then {a} else {b}")


def equivalent(text: str, rng: random.Random) -> str:
    """Another way to write the integer `text`, equal to it in Dafny's arithmetic."""
    divisor = rng.choice(("2", "3", "(-2)", "(-3)", "5"))
    forms = [
        f"({text})",
        f"({text}) + 0",
        f"({text}) + 1 - 1",
        f"-(-({text}))",
        f"0 - (0 - ({text}))",
        f"({text}) / {divisor} * {divisor} + ({text}) % {divisor}",
        f"if 0 <= {text} then ({text}) else ({text})",
        f"2 * ({text}) - ({text})",
        f"(2 * ({text})) / 2",
        f"(-2 * ({text})) / -2",
    ]
    return rng.choice(forms)


# -- programs ----------------------------------------------------------------------------------------------------------


def header(name: str, ins: dict[str, str], outs: dict[str, str], clauses: list[str]) -> str:
    def declared(names: dict[str, str]) -> str:
        return ", ".join(f"{key}: {kind}" for key, kind in names.items())

    return "\n".join([f"method {name}({declared(ins)}) returns ({declared(outs)})", *(f"  {c}" for c in clauses)])


def _inputs(rng: random.Random) -> tuple[dict[str, str], Expressions]:
    ins = {name: rng.choice(("int", "int", "int", "nat")) for name in rng.sample(["x", "y", "z"], rng.randint(1, 3))}
    if rng.random() < 0.4:
        ins["p"] = "bool"
    names = [name for name, kind in ins.items() if kind != "bool"]
    return ins, Expressions(rng, names, ["p"] if "p" in ins else [], rng.choice((0.2, 0.6, 1.0)))


def straight(rng: random.Random) -> Program:
    """The result equals an expression; the body computes it by another route."""
    ins, expressions = _inputs(rng)
    want = expressions.integer(rng.randint(1, 3))
    clauses = [f"requires {expressions.boolean(1)}"] if rng.random() < 0.3 else []
    spec = header("F", ins, {"r": "int"}, [*clauses, f"ensures r == ({want})"])
    value = equivalent(want, rng)
    bodies = [
        f"{{ r := {value}; }}",
        f"{{ return {value}; }}",
        f"{{ var t := {want}; r := {equivalent('t', rng)}; }}",
        f"{{ var t: int := {want}; r := t; return; }}",
        f"{{ var t, u := {want}, 1; t, r := u, t; r := r + t - u; }}",
        f"{{ var t: nat := 3; {{ var t := {want}; r := t; }} assert t == 3; }}",
        f"{{ r := {want}; if {expressions.boolean(1)} {{ var r := 0; r := r + 1; }} }}",
        f"{{ var t: int; var d := {want} - t; r := t + d; }}",
    ]
    return Program(spec, rng.choice(bodies))


def branching(rng: random.Random) -> Program:
    """Cases by a test, in the postcondition as implications, in the body as branches."""
    ins, expressions = _inputs(rng)
    test = expressions.boolean(rng.randint(1, 2))
    yes, no = expressions.integer(2), expressions.integer(1)
    clauses = rng.choice(
        (
            [f"ensures ({test}) ==> r == ({yes})", f"ensures !({test}) ==> r == ({no})"],
            [f"ensures r == if {test} then {yes} else {no}"],
            [f"ensures (r == ({yes}) <== ({test})) && (({test}) || r == ({no}))"],
            [f"ensures if {test} then r == ({yes}) else r == ({no})"],
        )
    )
    bodies = [
        f"{{ if {test} {{ r := {yes}; }} else {{ r := {no}; }} }}",
        f"{{ if {test} {{ return {yes}; }} return {no}; }}",
        f"{{ r := if {test} then {yes} else {no}; }}",
        f"{{ if !({test}) {{ r := {no}; return; }} else if ({test}) {{ r := {yes}; }} else {{ assert false; }} }}",
        f"{{ var b := {test}; var s := {no}; if b {{ var s := {yes}; return s; }} r := s; }}",
    ]
    return Program(header("F", ins, {"r": "int"}, clauses), rng.choice(bodies))


def assertions(rng: random.Random) -> Program:
    """A body of random assertions, true and false, that also say how an expression without parentheses is read."""
    ins, expressions = _inputs(rng)
    expressions.parentheses = 0.15
    body = []
    for _ in range(rng.randint(1, 3)):
        condition = expressions.boolean(2)
        body.append(
            rng.choice(
                (
                    f"assert ({condition}) || !({condition});",
                    f"if {condition} {{ assert {condition}; }}",
                    f"assert {condition};",
                    f"b := {condition}; assert b == ({condition});",
                )
            )
        )
    return Program(header("F", ins, {"r": "int", "b": "bool"}, ["ensures r == 1 && b"]), wrap(body, "r, b := 1, true;"))


def wrap(body: list[str], last: str) -> str:
    return "{\n  " + "\n  ".join([*body, last]) + "\n}"


def nats(rng: random.Random) -> Program:
    """Locals with and without types next to nats: what is checked for nats, and what Dafny infers."""
    ins = {"n": "nat", "k": "nat", "x": "int"}
    names = ["n", "k", "x", "v", "w"]
    body = [f"var v := {rng.choice(('n', 'x', '0', 'n + 1', 'n - k', '-k', 'k', 'n / 2'))};"]
    kind = rng.choice(("", ": nat", ": int"))
    body.append(f"var w{kind} := {rng.choice(('v', 'k', '1', 'v + 1', 'x * x', 'v - 1'))};")
    expressions = Expressions(rng, names, [], 0.5)
    for _ in range(rng.randint(1, 3)):
        target = rng.choice(("v", "w", "q"))
        value = rng.choice((*names, f"{rng.choice(names)} - 1", expressions.integer(1)))
        guard = rng.choice((f"if {value} >= 0 {{ {target} := {value}; }}", f"{target} := {value};"))
        body.append(guard)
    spec = header("F", ins, {"r": "int", "q": "nat"}, ["ensures r == 0", "ensures q >= 1"])
    return Program(spec, wrap(body, "r := v - v; q := 1;"))


def loop(rng: random.Random) -> Program:
    """One of the hand-written loops, its numbers replaced by random ones."""
    spec, answer = rng.choice(LOOPS)
    step = str(rng.randint(1, 4))
    return Program(spec.replace("$", step).strip(), answer.replace("$", step).strip())


# -- mutants -----------------------------------------------------------------------------------------------------------

_SWAPS = {
    "+": "-", "-": "+", "*": "+", "/": "%", "%": "/", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=",
    "!=": "==", "&&": "||", "||": "&&", "==>": "<==", "<==": "==>", "<==>": "==>", "nat": "int", "int": "nat",
    "true": "false", "requires": "ensures", "invariant": "decreases", "else": "", "!": "", "return": "assert",
}  # fmt: skip
_TOKEN = re.compile(r"<==>|==>|<==|:=|[<>=!]=|&&|\|\||\w+|\S")


def mutate(program: Program, rng: random.Random) -> Program:
    """`program` with one small change, mostly in the answer."""
    if rng.random() < 0.2:
        return Program(_mutate_text(program.spec, rng), program.answer)
    return Program(program.spec, _mutate_text(program.answer, rng))


def _mutate_text(text: str, rng: random.Random) -> str:
    kind = rng.randrange(9)
    tokens = list(_TOKEN.finditer(text))
    if kind < 4:
        tokens = [token for token in tokens if token.group() in _SWAPS] or tokens
        token = rng.choice(tokens)
        return text[: token.start()] + _SWAPS.get(token.group(), "") + text[token.end() :]
    if kind == 4:
        numbers = [token for token in tokens if token.group().isdigit()] or tokens
        token = rng.choice(numbers)
        new = str(int(token.group()) + rng.choice((1, 2))) if token.group().isdigit() else "1"
        return text[: token.start()] + new + text[token.end() :]
    if kind == 5:
        names = [token for token in tokens if re.fullmatch(r"[a-z]", token.group())] or tokens
        a, b = rng.choice(names), rng.choice(names)
        return text[: a.start()] + b.group() + text[a.end() :]
    lines = text.split("\n")
    if kind == 6 and len(lines) > 2:
        del lines[rng.randrange(1, len(lines) - 1)]
        return "\n".join(lines)
    if kind == 7:
        parentheses = [token for token in tokens if token.group() in "()"] or tokens
        token = rng.choice(parentheses)
        other = re.compile(r"\(([^()]*)\)")
        found = rng.choice([*other.finditer(text), token])
        inner = found[1] if found is not token and found.re is other else found.group()
        return text[: found.start()] + inner + text[found.end() :]
    extra = rng.choice(("return;", "var x := 1;", "r := r;", "var r := 2;", "assert r == r;", "r := r + 1;", "{ }"))
    places = [token.end() for token in tokens if token.group() in ";{"] or [len(text)]
    place = rng.choice(places)
    return f"{text[:place]} {extra} {text[place:]}"
