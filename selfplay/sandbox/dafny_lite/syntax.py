"""The abstract syntax of the subset. Every node knows the offset where it starts; positions never affect equality."""

from __future__ import annotations

from dataclasses import dataclass, field

INT, NAT, BOOL = "int", "nat", "bool"


@dataclass(slots=True, eq=False)
class Symbol:
    """A declared variable; two variables of one name are two symbols.

    `role` is "in", "out" or "local". `inferred` marks a local declared without a type. `perhaps_nat` marks an
    inferred local that Dafny may take for a `nat` (see `resolve.infer_nats`).
    """

    name: str
    type: str
    role: str
    inferred: bool = False
    perhaps_nat: bool = False


@dataclass(slots=True)
class IntLiteral:
    value: int
    offset: int = field(default=0, compare=False)
    depth: int = field(default=1, compare=False)


@dataclass(slots=True)
class BoolLiteral:
    value: bool
    offset: int = field(default=0, compare=False)
    depth: int = field(default=1, compare=False)


@dataclass(slots=True)
class Variable:
    """`symbol` is set by `resolve`."""

    name: str
    offset: int = field(default=0, compare=False)
    depth: int = field(default=1, compare=False)
    symbol: Symbol | None = field(default=None, compare=False)


@dataclass(slots=True)
class Unary:
    """`-e` or `!e`."""

    op: str
    operand: Expr
    offset: int = field(default=0, compare=False)
    depth: int = field(default=1, compare=False)


@dataclass(slots=True)
class Binary:
    """Two operands: arithmetic, comparison or logic, `op` as it is written."""

    op: str
    left: Expr
    right: Expr
    offset: int = field(default=0, compare=False)
    depth: int = field(default=1, compare=False)


@dataclass(slots=True)
class Chain:
    """`e0 op0 e1 op1 e2 ...`: the conjunction of the neighbours' comparisons, from left to right."""

    ops: list[str]
    operands: list[Expr]
    offset: int = field(default=0, compare=False)
    depth: int = field(default=1, compare=False)


@dataclass(slots=True)
class Conditional:
    """`if test then yes else no`."""

    test: Expr
    yes: Expr
    no: Expr
    offset: int = field(default=0, compare=False)
    depth: int = field(default=1, compare=False)


Expr = IntLiteral | BoolLiteral | Variable | Unary | Binary | Chain | Conditional


def occurrences(expr: Expr) -> list[Variable]:
    """The variables of an expression, as often as they occur."""
    match expr:
        case Variable():
            return [expr]
        case Unary():
            return occurrences(expr.operand)
        case Binary():
            return occurrences(expr.left) + occurrences(expr.right)
        case Chain():
            return [found for operand in expr.operands for found in occurrences(operand)]
        case Conditional():
            return occurrences(expr.test) + occurrences(expr.yes) + occurrences(expr.no)
        case _:
            return []


def symbols(expr: Expr) -> set[Symbol]:
    """The symbols that occur in a resolved expression."""
    return {variable.symbol for variable in occurrences(expr) if variable.symbol is not None}


@dataclass(slots=True)
class Name:
    """A name where it is declared or assigned, with its type where one is written. `symbol` is set by `resolve`."""

    name: str
    type: str | None = None
    offset: int = field(default=0, compare=False)
    symbol: Symbol | None = field(default=None, compare=False)


@dataclass(slots=True)
class Declare:
    """`var names := values;` or, with no values, `var names;` with types."""

    names: list[Name]
    values: list[Expr]
    offset: int = field(default=0, compare=False)


@dataclass(slots=True)
class Assign:
    """`names := values;`, all values taken before any name changes."""

    names: list[Name]
    values: list[Expr]
    offset: int = field(default=0, compare=False)


@dataclass(slots=True)
class If:
    test: Expr
    yes: Block
    no: Block | If | None
    offset: int = field(default=0, compare=False)


@dataclass(slots=True)
class While:
    """`decreases` is empty when the loop has no such clause. `targets` (set by `resolve`) is what the body assigns."""

    test: Expr
    invariants: list[Expr]
    decreases: list[Expr]
    body: Block
    offset: int = field(default=0, compare=False)
    targets: list[Symbol] = field(default_factory=list, compare=False)


@dataclass(slots=True)
class Return:
    """`return;` (no values) or `return values;`, one for each result."""

    values: list[Expr]
    offset: int = field(default=0, compare=False)


@dataclass(slots=True)
class Assert:
    condition: Expr
    offset: int = field(default=0, compare=False)


@dataclass(slots=True)
class Block:
    statements: list[Statement]
    offset: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


Statement = Declare | Assign | If | While | Return | Assert | Block


@dataclass(slots=True)
class Header:
    """A specification: one method's name, parameters, results and clauses."""

    name: str
    ins: list[Name]
    outs: list[Name]
    requires: list[Expr]
    ensures: list[Expr]
    offset: int = field(default=0, compare=False)
