"""Runs programs of the subset on given inputs: a second meaning of the language, with no logic in it.

A program that is verified may never go wrong here, whatever the inputs that its precondition allows. Locals and
results that nothing was assigned to start with arbitrary values.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass, field

from selfplay.sandbox.dafny_lite.syntax import (
    BOOL,
    NAT,
    Assert,
    Assign,
    Binary,
    Block,
    BoolLiteral,
    Chain,
    Conditional,
    Declare,
    Expr,
    Header,
    If,
    IntLiteral,
    Return,
    Statement,
    Symbol,
    Unary,
    Variable,
    While,
)

Value = int | bool


class WrongError(Exception):
    """The program broke an obligation."""


class _ReturnSignal(Exception):
    pass


def euclidean(a: int, b: int) -> tuple[int, int]:
    """Quotient and remainder with 0 <= remainder < |b|.

    Raises:
        WrongError: b is 0.
    """
    if b == 0:
        raise WrongError("division by zero")
    remainder = a % abs(b)
    return (a - remainder) // b, remainder


def evaluate(expr: Expr, env: dict[Symbol, Value]) -> Value:
    match expr:
        case IntLiteral() | BoolLiteral():
            return expr.value
        case Variable():
            assert expr.symbol is not None
            return env[expr.symbol]
        case Unary():
            value = evaluate(expr.operand, env)
            return -value if expr.op == "-" else not value
        case Conditional():
            return evaluate(expr.yes if evaluate(expr.test, env) else expr.no, env)
        case Chain():
            left = evaluate(expr.operands[0], env)
            for op, operand in zip(expr.ops, expr.operands[1:], strict=True):
                right = evaluate(operand, env)
                if not _apply(op, left, right):
                    return False
                left = right
            return True
        case Binary():
            return _binary(expr, env)


def _binary(expr: Binary, env: dict[Symbol, Value]) -> Value:
    if expr.op == "<==":
        return not evaluate(expr.right, env) or bool(evaluate(expr.left, env))
    left = evaluate(expr.left, env)
    if expr.op == "&&" and not left:
        return False
    if expr.op == "||" and left:
        return True
    if expr.op == "==>" and not left:
        return True
    right = evaluate(expr.right, env)
    return right if expr.op in ("&&", "||", "==>") else _apply(expr.op, left, right)


def _apply(op: str, left: Value, right: Value) -> Value:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return euclidean(left, right)[0]
        case "%":
            return euclidean(left, right)[1]
        case "==" | "<==>":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case _:
            return left >= right


@dataclass
class Run:
    """One execution; `fuel` bounds its loop iterations, after which a loop counts as endless."""

    header: Header
    rng: random.Random
    fuel: int = 2000
    env: dict[Symbol, Value] = field(default_factory=dict)

    def call(self, body: Block, inputs: dict[str, Value]) -> bool:
        """Whether the inputs met the precondition; if so the program was run.

        Raises:
            WrongError: it broke an obligation.
        """
        for name in self.header.ins:
            assert name.symbol is not None
            self.env[name.symbol] = inputs[name.name]
        if not all(evaluate(clause, self.env) for clause in self.header.requires):
            return False
        for name in self.header.outs:
            assert name.symbol is not None
            self.env[name.symbol] = self.arbitrary(name.symbol)
        with contextlib.suppress(_ReturnSignal):
            self.block(body)
        for clause in self.header.ensures:
            if not evaluate(clause, self.env):
                raise WrongError("postcondition")
        return True

    def arbitrary(self, symbol: Symbol) -> Value:
        if symbol.type == BOOL:
            return self.rng.random() < 0.5
        return self.rng.randint(0 if symbol.type == NAT else -9, 9)

    def store(self, symbol: Symbol | None, value: Value) -> None:
        assert symbol is not None
        if symbol.type == NAT and value < 0:
            raise WrongError("a negative nat")
        self.env[symbol] = value

    def block(self, body: Block) -> None:
        for statement in body.statements:
            self.statement(statement)

    def statement(self, statement: Statement) -> None:
        match statement:
            case Declare() | Assign():
                values = [evaluate(value, self.env) for value in statement.values]
                for index, name in enumerate(statement.names):
                    assert name.symbol is not None
                    self.store(name.symbol, values[index] if values else self.arbitrary(name.symbol))
            case If():
                if evaluate(statement.test, self.env):
                    self.block(statement.yes)
                elif statement.no is not None:
                    self.statement(statement.no)
            case While():
                self.loop(statement)
            case Return():
                values = [evaluate(value, self.env) for value in statement.values]
                for name, value in zip(self.header.outs, values, strict=False):
                    self.store(name.symbol, value)
                raise _ReturnSignal
            case Assert():
                self.check(statement.condition, "assertion")
            case Block():
                self.block(statement)

    def check(self, condition: Expr, what: str) -> None:
        if not evaluate(condition, self.env):
            raise WrongError(what)

    def loop(self, statement: While) -> None:
        while True:
            for invariant in statement.invariants:
                self.check(invariant, "invariant")
            before = [evaluate(measure, self.env) for measure in statement.decreases]
            if not evaluate(statement.test, self.env):
                return
            self.fuel -= 1
            if self.fuel < 0:
                raise WrongError("an endless loop")
            self.block(statement.body)
            after = [evaluate(measure, self.env) for measure in statement.decreases]
            if before and not after < before:
                raise WrongError("decreases")
