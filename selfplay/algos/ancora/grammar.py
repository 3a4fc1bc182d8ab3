"""The micro-domain's notation: templates of small integer programs, and the tasks they are instantiated to.

A *template* is a method header, its clauses and one body that satisfies them, with placeholders for input names and
literals. A *rung* is a set of templates of one difficulty; a *family* is a ladder of rungs that share placeholders, so
that the same draw of names and literals can be moved up or down one rung: one focused semantic change, which is what a
demonstration of the Proposer has to show.

Placeholders: `{x} {y} {z}` inputs (in a drawn order), `{a} < {b} < {c}` and `{k} < {m}` positive literals, `{s}` one of
`+ -` and `{t}` the other. `{{` and `}}` are braces.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cached_property

KEYWORDS = frozenset(
    "method returns requires ensures int nat bool var if else while invariant decreases return true false".split()
)
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
    pick: float

    @staticmethod
    def sample(rng: random.Random) -> Draw:
        x, y, z = rng.choice(("xyz", "xyz", "yxz", "xzy", "zyx", "yzx", "zxy"))
        a = rng.randint(1, 6)
        b = a + rng.randint(1, 4)
        k = rng.randint(2, 5)
        s, t = rng.choice(("+-", "+-", "-+"))
        values = dict(x=x, y=y, z=z, s=s, t=t, a=str(a), b=str(b), c=str(b + rng.randint(1, 4)))
        values.update(k=str(k), m=str(k + rng.randint(1, 4)))
        return Draw(values, rng.random())


def instantiate(family: str, rung: Rung, draw: Draw) -> Task:
    """The task that a rung makes of a draw; inputs a template does not use are not declared."""
    template = rung.templates[int(draw.pick * len(rung.templates))]
    used = tuple(sorted(draw.values[name] for name in template.inputs))
    return Task(
        family=family,
        grade=rung.grade,
        skill=rung.skill,
        inputs=used,
        outputs=tuple(template.outputs),
        requires=_fill(template.requires, draw),
        ensures=_fill(template.ensures, draw),
        statements=template.statements.format_map(draw.values),
    )


def _fill(clauses: str, draw: Draw) -> tuple[str, ...]:
    return tuple(clause.strip().format_map(draw.values) for clause in clauses.split(";") if clause.strip())
