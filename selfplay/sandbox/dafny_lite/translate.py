"""Expressions to terms, each with the condition under which it is defined."""

from __future__ import annotations

from typing import NamedTuple

from selfplay.sandbox.dafny_lite import terms
from selfplay.sandbox.dafny_lite.errors import MalformedError, Reason
from selfplay.sandbox.dafny_lite.resolve import ARITHMETIC, ORDER, PERHAPS_NAT, flavour
from selfplay.sandbox.dafny_lite.syntax import (
    BOOL,
    Binary,
    BoolLiteral,
    Chain,
    Conditional,
    Expr,
    IntLiteral,
    Symbol,
    Unary,
    Variable,
)
from selfplay.sandbox.dafny_lite.terms import TRUE, Declarations, implies, ite, land, lnot, lor

# z3 multiplies out what it simplifies, and counts no resources for it: `r := r * r;` forty times would never end.
MAX_DEGREE = 12  # of a product, in factors that are not literals
MAX_CONSTANT_DIGITS = 300  # of a literal computed from literals

Environment = dict[Symbol, str]


class Value(NamedTuple):
    """A term, and a formula that holds when no division in it is by zero and no inferred nat falls below zero."""

    term: str
    defined: str


def sort_of(kind: str) -> str:
    return "Bool" if kind == BOOL else "Int"


def translate(expr: Expr, env: Environment, declarations: Declarations) -> Value:
    """The value of a resolved expression where its variables have the values in `env`.

    `&&`, `||`, `==>`, `<==` and conditionals short-circuit: an operand only has to be defined where it is evaluated.

    Raises:
        MalformedError: a product is of too high a degree, or a constant too large.
    """
    match expr:
        case IntLiteral():
            return Value(terms.number(expr.value), TRUE)
        case BoolLiteral():
            return Value(TRUE if expr.value else terms.FALSE, TRUE)
        case Variable():
            assert expr.symbol is not None
            return Value(env[expr.symbol], TRUE)
        case Unary():
            return _unary(expr, env, declarations)
        case Binary():
            left = translate(expr.left, env, declarations)
            right = translate(expr.right, env, declarations)
            value = _binary(expr, left, right, declarations)
            sort = "Int" if expr.op in ARITHMETIC else "Bool"
            return Value(declarations.share(value.term, sort), declarations.share(value.defined, "Bool"))
        case Chain():
            return _chain(expr, env, declarations)
        case Conditional():
            test = translate(expr.test, env, declarations)
            yes = translate(expr.yes, env, declarations)
            no = translate(expr.no, env, declarations)
            defined = land(test.defined, implies(test.term, yes.defined), implies(lnot(test.term), no.defined))
            sort = "Bool" if is_bool(expr) else "Int"
            term = declarations.share(ite(test.term, yes.term, no.term), sort)
            return Value(term, declarations.share(defined, "Bool"))


def is_bool(expr: Expr) -> bool:
    """Whether a resolved expression is boolean."""
    match expr:
        case IntLiteral():
            return False
        case Variable():
            return expr.symbol is not None and expr.symbol.type == BOOL
        case Unary():
            return expr.op == "!"
        case Binary():
            return expr.op not in ARITHMETIC
        case Conditional():
            return is_bool(expr.yes)
        case _:
            return True


def _unary(expr: Unary, env: Environment, declarations: Declarations) -> Value:
    operand = translate(expr.operand, env, declarations)
    if expr.op == "!":
        return Value(lnot(operand.term), operand.defined)
    term = terms.negate(operand.term)
    return Value(term, land(operand.defined, _nat_result(expr, term)))


def _nat_result(expr: Expr, term: str) -> str:
    return TRUE if flavour(expr) != PERHAPS_NAT else terms.compare("<=", "0", term)


def _arithmetic(expr: Binary, left: str, right: str, declarations: Declarations) -> str:
    if expr.op != "*":
        return terms.arithmetic(expr.op, left, right)
    term, degree = declarations.product(left, right)
    if degree > MAX_DEGREE:
        raise MalformedError(Reason.LIMIT, f"a product of degree above {MAX_DEGREE}", expr.offset)
    return term


def _binary(expr: Binary, left: Value, right: Value, declarations: Declarations) -> Value:
    op = expr.op
    both = land(left.defined, right.defined)
    if op in ARITHMETIC:
        term = _arithmetic(expr, left.term, right.term, declarations)
        if len(term) > MAX_CONSTANT_DIGITS and terms.literal(term) is not None:
            raise MalformedError(Reason.LIMIT, f"a constant of more than {MAX_CONSTANT_DIGITS} digits", expr.offset)
        nonzero = lnot(terms.equal(right.term, "0")) if op in "/%" else TRUE
        return Value(term, land(both, nonzero, _nat_result(expr, term)))
    if op in ORDER or op in ("==", "!=", "<==>"):
        return Value(_compare(op, left.term, right.term), both)
    if op == "<==":  # `a <== b` is `b ==> a`, evaluated in that order
        left, right, op = right, left, "==>"
    if op == "||":
        return Value(lor(left.term, right.term), land(left.defined, implies(lnot(left.term), right.defined)))
    combine = land if op == "&&" else implies
    return Value(combine(left.term, right.term), land(left.defined, implies(left.term, right.defined)))


def _compare(op: str, left: str, right: str) -> str:
    if op in ("==", "<==>"):
        return terms.equal(left, right)
    if op == "!=":
        return lnot(terms.equal(left, right))
    return terms.compare(op, left, right)


def _chain(expr: Chain, env: Environment, declarations: Declarations) -> Value:
    operands = [translate(operand, env, declarations) for operand in expr.operands]
    holds, defined = TRUE, operands[0].defined
    for op, left, right in zip(expr.ops, operands, operands[1:], strict=False):
        defined = land(defined, implies(holds, right.defined))
        holds = declarations.share(land(holds, _compare(op, left.term, right.term)), "Bool")
    return Value(holds, declarations.share(defined, "Bool"))
