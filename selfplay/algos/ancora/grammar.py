"""The micro-domain's notation: templates of small integer programs, and the tasks they are instantiated to.

A *template* is a method header, its clauses and one body that satisfies them, with placeholders for input names and
literals. A *rung* is a set of templates of one difficulty; a *family* is a ladder of rungs that share placeholders, so
that the same draw of names and literals can be moved up or down one rung: one focused semantic change, which is what a
demonstration of the Proposer has to show.

Placeholders: `{x} {y} {z}` inputs (their names are drawn), `{a} < {b} < {c}` and `{k} < {m}` positive literals, `{s}`
and `{t}` one of `+ -` each, `{e2} {f2}` random sums over the first two inputs, `{p2} {q2}` random comparisons over them
and `{np2} {nq2}` their negations (likewise over one and three). `{{` and `}}` are braces.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cached_property

# Names of inputs: any letter but those of results (b q r s), of loop counters (i) and the look-alikes l and o. Many
# names make a text easier to follow for a small model: two terms that differ are then two different tokens.
NAMES = "acdefghjkmnptuvwxyz"
_WORDS = "method returns requires ensures int nat bool var if else while invariant decreases return true false"
KEYWORDS = frozenset(_WORDS.split(" "))
_TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_']*|\d+|<==>|==>|<==|:=|[<>=!]=|&&|\|\||[^\s]")
_OUTPUT_TYPES = {"b": "bool"}


def tokens(text: str) -> list[str]:
    """Lexical tokens of a specification or an answer (no comments, which this domain does not write)."""
    return _TOKEN.findall(text)


def name_key(spec: str) -> str:
    """`spec` with its identifiers numbered by first appearance and its layout dropped.

    Two specifications that differ in names and blanks only have equal keys. It works on tokens, in microseconds, where
    the verifier's own normal form parses: made for filtering tens of thousands of generated texts.
    """
    numbers: dict[str, str] = {}
    out = []
    for token in tokens(spec):
        if token[0].isalpha() and token not in KEYWORDS:
            token = numbers.setdefault(token, f"v{len(numbers)}")
        out.append(token)
    return " ".join(out)


def shape_key(spec: str) -> str:
    """`name_key` with every literal replaced by `0`: equal for specifications of one structure."""
    return re.sub(r"(?<!v)\b\d+", "0", name_key(spec))


@dataclass(frozen=True)
class Task:
    """One specification of the domain with a body that verifies. `clauses` are the lines below the header."""

    family: str
    grade: int
    skill: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    requires: tuple[str, ...]
    ensures: tuple[str, ...]
    statements: str

    @cached_property
    def spec(self) -> str:
        return render_spec("M", self.inputs, self.outputs, self.requires, self.ensures)

    @property
    def answer(self) -> str:
        return "{ " + self.statements + " }"


def render_spec(
    name: str, inputs: tuple[str, ...], outputs: tuple[str, ...], requires: tuple[str, ...], ensures: tuple[str, ...]
) -> str:
    """The text of a method header with one clause a line. An output named `b` is a bool, everything else an int."""
    ins = ", ".join(f"{i}: int" for i in inputs)
    outs = ", ".join(f"{o}: {_OUTPUT_TYPES.get(o, 'int')}" for o in outputs)
    lines = [f"method {name}({ins}) returns ({outs})"]
    lines += [f"  requires {clause}" for clause in requires] + [f"  ensures {clause}" for clause in ensures]
    return "\n".join(lines)


@dataclass(frozen=True)
class Template:
    """Clauses and statements with placeholders; `requires` and `ensures` hold one clause each, split at ` ; `."""

    inputs: str
    outputs: str
    ensures: str
    statements: str
    requires: str = ""


@dataclass(frozen=True)
class Rung:
    """Templates of one difficulty. `skill` names what a solver needs there; `demonstrated` is whether the solver's
    demonstrations cover it (what is not demonstrated is left for reinforcement learning to find)."""

    grade: int
    skill: str
    templates: tuple[Template, ...]
    demonstrated: bool = True


@dataclass(frozen=True)
class Draw:
    """One draw of names and literals, shared by the rungs of a ladder."""

    values: dict[str, str]
    names: str  # of the first, second and third input
    pick: float

    @staticmethod
    def sample(rng: random.Random) -> Draw:
        drawn = "".join(rng.sample(NAMES, 3))
        a = rng.randint(1, 9)
        b = a + rng.randint(1, 4)
        k = rng.randint(2, 6)
        values = {"s": rng.choice("+-"), "t": rng.choice("+-"), "a": str(a), "b": str(b)}
        values |= {"c": str(b + rng.randint(1, 4)), "k": str(k), "m": str(k + rng.randint(1, 4))}
        for n in (1, 2, 3):
            names = drawn[:n]
            values |= {f"e{n}": expression(rng, names), f"f{n}": expression(rng, names)}
            values[f"p{n}"], values[f"np{n}"] = comparison(rng, names)
            values[f"q{n}"], values[f"nq{n}"] = comparison(rng, names)
        return Draw(values, drawn, rng.random())


def expression(rng: random.Random, names: str) -> str:
    """A random sum of two terms, or three where there are names for them; no name occurs twice."""
    chosen = rng.sample(names, rng.randint(1, len(names)))
    terms = [name if rng.random() < 0.6 else f"{rng.randint(2, 6)} * {name}" for name in chosen]
    if len(terms) == 1 or rng.random() < 0.3:
        terms.append(str(rng.randint(1, 9)))
    rng.shuffle(terms)
    return terms[0] + "".join(f" {rng.choice('++-')} {term}" for term in terms[1:])


_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def comparison(rng: random.Random, names: str) -> tuple[str, str]:
    """A random comparison of a variable or a sum with a variable or a literal, and its negation."""
    left = rng.choice((rng.choice(names), rng.choice(names), expression(rng, names)))
    right = rng.choice((str(rng.randint(0, 9)), rng.choice(names)))
    right = "0" if right == left else right
    operator = rng.choice(list(_NEGATED))
    return f"{left} {operator} {right}", f"{left} {_NEGATED[operator]} {right}"


def instantiate(family: str, rung: Rung, draw: Draw) -> Task:
    """The task that a rung makes of a draw; inputs a template does not use are not declared."""
    template = rung.templates[int(draw.pick * len(rung.templates))]
    names = draw.names[: len(template.inputs)]
    values = draw.values | dict(zip(template.inputs, names, strict=True))
    return Task(
        family=family,
        grade=rung.grade,
        skill=rung.skill,
        inputs=tuple(sorted(names)),
        outputs=tuple(template.outputs),
        requires=_fill(template.requires, values),
        ensures=_fill(template.ensures, values),
        statements=template.statements.format_map(values),
    )


def _fill(clauses: str, values: dict[str, str]) -> tuple[str, ...]:
    return tuple(clause.strip().format_map(values) for clause in clauses.split(";") if clause.strip())
