"""Verification conditions: forward symbolic execution of one method, loops cut at their invariants.

Values are SMT terms over constants; where paths meet, a variable becomes `ite(test, then, else)`, so conditions grow
linearly with the program. The result is a sequence of facts and obligations. Each obligation has to follow from the
facts before it; each is itself a fact for what comes later, as all of them have to hold.
"""

from __future__ import annotations

from dataclasses import dataclass

from selfplay.sandbox.dafny_lite import terms
from selfplay.sandbox.dafny_lite.syntax import (
    NAT,
    Assert,
    Assign,
    Block,
    Declare,
    Expr,
    Header,
    If,
    Name,
    Return,
    Statement,
    Symbol,
    While,
)
from selfplay.sandbox.dafny_lite.termination import default_measure
from selfplay.sandbox.dafny_lite.terms import TRUE, Declarations, implies, land, lnot, lor
from selfplay.sandbox.dafny_lite.translate import Environment, Value, sort_of, translate

UNDEFINED = "this may divide by zero, or make a nat negative"


@dataclass(slots=True)
class Obligation:
    """`goal` has to hold. `part` ("spec" or "answer") and `offset` say where it comes from."""

    goal: str
    message: str
    part: str
    offset: int


@dataclass(slots=True)
class Conditions:
    """What has to be proved of one method. `inputs` maps each parameter's name to its constant."""

    declarations: Declarations
    inputs: dict[str, str]
    steps: list[str | Obligation]  # a str is a fact

    @property
    def obligations(self) -> list[Obligation]:
        return [step for step in self.steps if isinstance(step, Obligation)]


class Generator:
    """Collects the conditions of one method; `steps` is in program order."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.declarations = Declarations()
        self.steps: list[str | Obligation] = []
        self.env: Environment = {}  # of the parameters
        self.inputs: dict[str, str] = {}

    # -- facts and obligations ---------------------------------------------------------------------------------------

    def fact(self, guard: str, formula: str) -> None:
        formula = implies(guard, formula)
        if formula != TRUE:
            self.steps.append(formula)

    def oblige(self, guard: str, goal: str, message: str, offset: int, part: str = "answer") -> None:
        goal = implies(guard, goal)
        if goal != TRUE:
            self.steps.append(Obligation(goal, message, part, offset))

    def evaluate(self, expr: Expr, env: Environment, guard: str, part: str = "answer") -> str:
        """The term of `expr`, after the obligation that it is defined."""
        value = translate(expr, env, self.declarations)
        self.oblige(guard, value.defined, UNDEFINED, expr.offset, part)
        return value.term

    def unknown(self, symbol: Symbol) -> str:
        """A constant for an arbitrary value of the symbol's type."""
        constant = self.declarations.constant(sort_of(symbol.type), symbol.name)
        if symbol.type == NAT:
            self.fact(TRUE, terms.compare("<=", "0", constant))
        return constant

    # -- the specification -------------------------------------------------------------------------------------------

    def specification(self) -> Environment:
        """Parameters, precondition, and that both clauses are defined; returns what the body starts with."""
        for name in self.header.ins:
            symbol = _symbol(name)
            self.env[symbol] = self.inputs[symbol.name] = self.unknown(symbol)
        for condition in self.header.requires:
            self.fact(TRUE, self.evaluate(condition, self.env, TRUE, "spec"))
        env = self.env | {_symbol(name): self.unknown(_symbol(name)) for name in self.header.outs}
        guard = TRUE  # not facts: a postcondition nothing satisfies must not make the rest vacuous
        for condition in self.header.ensures:
            value = translate(condition, env, self.declarations)
            self.oblige(guard, value.defined, UNDEFINED, condition.offset, "spec")
            guard = self.declarations.share(land(guard, value.term), "Bool")
        return env

    def postconditions(self, env: Environment, guard: str, offset: int) -> None:
        for condition in self.header.ensures:
            term = translate(condition, env, self.declarations).term
            self.oblige(guard, term, "a postcondition may not hold on return here", offset)

    # -- statements: each returns the values and the path condition after it, None where it never gets there ---------

    def block(self, body: Block, env: Environment, guard: str) -> tuple[Environment, str] | None:
        after: tuple[Environment, str] | None = (env, guard)
        for statement in body.statements:
            # What follows a return is never reached, and has nothing to prove.
            if after is None:
                return None
            after = self.statement(statement, *after)
        return after

    def statement(self, statement: Statement, env: Environment, guard: str) -> tuple[Environment, str] | None:
        match statement:
            case Declare() | Assign():
                return self.assign(statement, env, guard), guard
            case If():
                return self.branch(statement, env, guard)
            case While():
                return self.loop(statement, env, guard)
            case Return():
                self.give_back(statement, env, guard)
                return None
            case Assert():
                self.oblige(guard, self.evaluate(statement.condition, env, guard), "assertion", statement.offset)
                return env, guard
            case Block():
                return self.block(statement, env, guard)

    def assign(self, statement: Declare | Assign, env: Environment, guard: str) -> Environment:
        symbols = [_symbol(name) for name in statement.names]
        if not statement.values:
            return env | {symbol: self.unknown(symbol) for symbol in symbols}
        values = [self.evaluate(value, env, guard) for value in statement.values]
        return env | self.stored(symbols, values, statement.values, guard)

    def stored(self, symbols: list[Symbol], values: list[str], sources: list[Expr], guard: str) -> Environment:
        """The new values of `symbols`, after the obligation that no nat becomes negative."""
        new: Environment = {}
        for symbol, value, source in zip(symbols, values, sources, strict=True):
            if symbol.type == NAT or symbol.perhaps_nat:
                goal = terms.compare("<=", "0", value)
                self.oblige(guard, goal, f"`{symbol.name}` is a nat: the value may be negative", source.offset)
            new[symbol] = self.declarations.share(value, sort_of(symbol.type))
        return new

    def give_back(self, statement: Return, env: Environment, guard: str) -> None:
        if statement.values:
            outs = [_symbol(name) for name in self.header.outs]
            values = [self.evaluate(value, env, guard) for value in statement.values]
            env = env | self.stored(outs, values, statement.values, guard)
        self.postconditions(env, guard, statement.offset)

    def branch(self, statement: If, env: Environment, guard: str) -> tuple[Environment, str] | None:
        test = self.declarations.share(self.evaluate(statement.test, env, guard), "Bool")
        if_yes, if_no = self.both(guard, test)
        yes = self.block(statement.yes, env, if_yes)
        no = (env, if_no) if statement.no is None else self.statement(statement.no, env, if_no)
        if yes is None or no is None:
            return yes or no
        merged: Environment = {}
        for symbol in env:
            value = terms.ite(test, yes[0][symbol], no[0][symbol])
            merged[symbol] = self.declarations.share(value, sort_of(symbol.type))
        through = (yes[1], no[1]) == (if_yes, if_no)
        return merged, guard if through else self.declarations.share(lor(yes[1], no[1]), "Bool")

    def both(self, guard: str, test: str) -> tuple[str, str]:
        share = self.declarations.share
        return share(land(guard, test), "Bool"), share(land(guard, lnot(test)), "Bool")

    # -- loops -------------------------------------------------------------------------------------------------------

    def loop(self, statement: While, env: Environment, guard: str) -> tuple[Environment, str]:
        for invariant in statement.invariants:
            term = translate(invariant, env, self.declarations).term
            self.oblige(guard, term, "this invariant may not hold on entry", invariant.offset)
        # An arbitrary iteration: anything the body assigns has any value that the invariants allow. That includes the
        # first one, so the invariants' definedness is shown here once.
        head = env | {symbol: self.unknown(symbol) for symbol in statement.targets}
        for invariant in statement.invariants:
            self.fact(guard, self.evaluate(invariant, head, guard))
        before = self.measure(statement, head)
        for value, measure in zip(before, statement.decreases, strict=False):
            self.oblige(guard, value.defined, UNDEFINED, measure.offset)
        test = self.declarations.share(self.evaluate(statement.test, head, guard), "Bool")
        inside, after = self.both(guard, test)
        end = self.block(statement.body, head, inside)
        if end is not None:
            self.iteration_end(statement, before, *end)
        return head, after

    def measure(self, statement: While, env: Environment) -> list[Value]:
        if statement.decreases:
            return [translate(measure, env, self.declarations) for measure in statement.decreases]
        return [default_measure(statement, env, self.declarations)]

    def iteration_end(self, statement: While, before: list[Value], end: Environment, guard: str) -> None:
        for invariant in statement.invariants:
            term = translate(invariant, end, self.declarations).term
            self.oblige(guard, term, "this invariant may not be maintained", invariant.offset)
        after = self.measure(statement, end)  # defined: it is at the head, in any state that the invariants allow
        same, smaller = TRUE, terms.FALSE
        for old, new in zip(before, after, strict=True):
            less = land(same, terms.compare("<", new.term, old.term), terms.compare("<=", "0", old.term))
            smaller = lor(smaller, less)
            same = land(same, terms.equal(new.term, old.term))
        self.oblige(guard, smaller, "the loop may not terminate: its measure may not decrease", statement.offset)


def _symbol(name: Name) -> Symbol:
    assert name.symbol is not None
    return name.symbol


def conditions(header: Header, body: Block) -> Conditions:
    """What has to be proved of a resolved method.

    Raises:
        MalformedError: a loop has no `decreases` and Dafny's default does not apply, or a number may get too large.
    """
    generator = Generator(header)
    end = generator.block(body, generator.specification(), TRUE)
    if end is not None:
        generator.postconditions(*end, body.end)
    return Conditions(generator.declarations, generator.inputs, generator.steps)
