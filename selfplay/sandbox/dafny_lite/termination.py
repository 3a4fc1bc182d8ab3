"""Dafny's guess for a loop without `decreases`: read off the first comparison in the guard."""

from __future__ import annotations

from collections.abc import Iterator

from selfplay.sandbox.dafny_lite.errors import MalformedError, Reason
from selfplay.sandbox.dafny_lite.syntax import Binary, Chain, Expr, While
from selfplay.sandbox.dafny_lite.terms import TRUE, Declarations, arithmetic, compare, ite, land
from selfplay.sandbox.dafny_lite.translate import Environment, Value, is_bool, translate


def default_measure(loop: While, env: Environment, declarations: Declarations) -> Value:
    """The guessed measure: `b - a` for `a < b` or `a <= b`, `a - b` for `a > b` or `a >= b`, |a - b| for `a != b`.

    Guards are split at `&&`; conjuncts before the comparison make it `if those hold then measure else -1`.

    Raises:
        MalformedError: the guard has no comparison.
    """
    before = TRUE
    for conjunct in _conjuncts(loop.test):
        if isinstance(conjunct, Binary) and conjunct.op in ("<", "<=", ">", ">=", "!=") and not is_bool(conjunct.left):
            left = translate(conjunct.left, env, declarations).term
            right = translate(conjunct.right, env, declarations).term
            guess = ite(before, _distance(conjunct.op, left, right), "(- 1)")
            return Value(declarations.share(guess, "Int"), TRUE)
        before = land(before, translate(conjunct, env, declarations).term)
    raise MalformedError(Reason.TERMINATION, "this loop needs a `decreases` clause", loop.offset)


def _conjuncts(test: Expr) -> Iterator[Expr]:
    if isinstance(test, Binary) and test.op == "&&":
        yield from _conjuncts(test.left)
        yield from _conjuncts(test.right)
    elif isinstance(test, Chain):
        for op, left, right in zip(test.ops, test.operands, test.operands[1:], strict=False):
            yield Binary(op, left, right, left.offset)
    else:
        yield test


def _distance(op: str, left: str, right: str) -> str:
    if op in ("<", "<="):
        return arithmetic("-", right, left)
    if op in (">", ">="):
        return arithmetic("-", left, right)
    return ite(compare("<=", left, right), arithmetic("-", right, left), arithmetic("-", left, right))
