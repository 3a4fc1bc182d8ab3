"""Conditions to z3: one query for all obligations of a method, in a context of its own, bounded by `rlimit`.

A fresh context and a resource count instead of a clock make an answer depend on the question alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

import z3

from selfplay.sandbox.dafny_lite.terms import FALSE, TRUE, Declarations, land, lnot, lor
from selfplay.sandbox.dafny_lite.vcgen import Conditions, Obligation

_CONSTANT = re.compile(r"\(define-fun (\S+) \(\) (?:Int|Bool)\s+(\d+|\(- \d+\)|true|false)\)")


class Answer(StrEnum):
    """Of a satisfiability question."""

    SAT = "sat"
    UNSAT = "unsat"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Proof:
    """`proved`: every obligation holds (True), one does not (False), or the limit ran out (None).

    `failed` is the first obligation that does not hold or was not decided; `inputs` are values that break it.
    """

    proved: bool | None
    failed: Obligation | None = None
    inputs: dict[str, str] = field(default_factory=dict)


def satisfiable(declarations: Declarations, formula: str, rlimit: int) -> tuple[Answer, dict[str, str]]:
    """Is there a model of `formula`? With SAT, the values of its constants, by name, in Dafny's notation."""
    if formula in (TRUE, FALSE):
        return (Answer.SAT if formula == TRUE else Answer.UNSAT), {}
    context = z3.Context()
    solver = z3.SimpleSolver(ctx=context)
    solver.set("rlimit", rlimit)
    solver.from_string("\n".join([*declarations.lines, f"(assert {formula})"]))
    result = solver.check()
    if result == z3.unsat:
        return Answer.UNSAT, {}
    if result == z3.unknown:
        return Answer.UNKNOWN, {}
    # The model as z3 prints it: reading values one by one through Python objects costs more than the proof.
    text = z3.Z3_model_to_string(context.ref(), solver.model().model)
    return Answer.SAT, {name: _value(value) for name, value in _CONSTANT.findall(text)}


def _value(text: str) -> str:
    return f"-{text[3:-1]}" if text.startswith("(- ") else text


def prove(conditions: Conditions, rlimit: int) -> Proof:
    """Whether every obligation follows from the facts before it."""
    obligations = conditions.obligations
    if not obligations:
        return Proof(True)
    declarations = conditions.declarations.copy()
    formula, names = _negation(conditions.steps, declarations)
    answer, values = satisfiable(declarations, formula, rlimit)
    if answer is Answer.UNSAT:
        return Proof(True)
    if answer is Answer.SAT:
        first = next((goal for goal, name in zip(obligations, names, strict=True) if values.get(name) == "true"), None)
        assert first is not None, "a model breaks no obligation"
        return Proof(False, first, _inputs(conditions, values))
    return _one_by_one(conditions, rlimit)


def _negation(steps: list[str | Obligation], declarations: Declarations) -> tuple[str, list[str]]:
    """Facts and obligations, negated: some obligation fails while the facts before it hold.

    Each obligation gets a constant that, where true in a model, says that this one fails.
    """
    names: list[str] = []
    formula = FALSE
    for step in reversed(steps):
        if isinstance(step, Obligation):
            name = declarations.constant("Bool", "fails")
            declarations.lines.append(f"(assert (=> {name} {lnot(step.goal)}))")
            names.append(name)
            formula = lor(name, land(step.goal, formula))
        else:
            formula = land(step, formula)
        formula = declarations.share(formula, "Bool")
    return formula, names[::-1]


def _one_by_one(conditions: Conditions, rlimit: int) -> Proof:
    """Each obligation in its own query: some that are too hard together are easy apart.

    All of them together may take four times the limit of one.
    """
    rlimit = min(rlimit, max(1, 4 * rlimit // len(conditions.obligations)))
    facts: list[str] = []
    for step in conditions.steps:
        if isinstance(step, Obligation):
            answer, values = satisfiable(conditions.declarations, land(*facts, lnot(step.goal)), rlimit)
            if answer is not Answer.UNSAT:
                refuted = answer is Answer.SAT
                return Proof(False if refuted else None, step, _inputs(conditions, values) if refuted else {})
            facts.append(step.goal)
        else:
            facts.append(step)
    return Proof(True)


def _inputs(conditions: Conditions, values: dict[str, str]) -> dict[str, str]:
    """The parameters' values; a parameter the model leaves out may have any, 0 or false among them."""
    sorts = {line.split()[1]: line.split()[2] for line in conditions.declarations.lines if "declare-const" in line}
    defaults = {"Int)": "0", "Bool)": "false"}
    return {name: values.get(constant, defaults[sorts[constant]]) for name, constant in conditions.inputs.items()}
