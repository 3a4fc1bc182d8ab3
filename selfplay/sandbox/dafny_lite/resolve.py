"""Names and types: ties every name to its symbol, and refuses what Dafny's resolver refuses.

Scoping is Dafny's: parameters form the outermost scope; results and the body's own variables share the next; each
nested block opens another, in which names may be declared anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from selfplay.sandbox.dafny_lite.errors import MalformedError, Reason
from selfplay.sandbox.dafny_lite.syntax import (
    BOOL,
    INT,
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
    Name,
    Return,
    Statement,
    Symbol,
    Unary,
    Variable,
    While,
    symbols,
)

ARITHMETIC = frozenset("+-*/%")
ORDER = frozenset(("<", "<=", ">", ">="))
EQUALITY = frozenset(("==", "!="))
PERHAPS_NAT, NEUTRAL = "perhaps nat", "neutral"  # beside INT and NAT, what `flavour` says of an expression
Scope = dict[str, Symbol]


def resolve_header(header: Header) -> None:
    """Sets the symbols of a specification.

    Raises:
        MalformedError: a duplicate or unknown name, or a wrong type.
    """
    ins: Scope = {}
    for name in header.ins:
        _declare(name, "in", ins)
    for condition in header.requires:
        _expect(condition, BOOL, [ins])
    outs: Scope = {}
    for name in header.outs:
        if name.name in ins:
            raise MalformedError(Reason.SCOPE, f"`{name.name}` is declared twice", name.offset)
        _declare(name, "out", outs)
    for condition in header.ensures:
        _expect(condition, BOOL, [ins, outs])


def resolve_body(header: Header, body: Block) -> None:
    """Sets the symbols of a body, the targets of its loops, and which inferred locals may be `nat`.

    Raises:
        MalformedError: a duplicate, unknown or unassignable name, a wrong type, or a wrong number of values.
    """
    resolver = _BodyResolver(header)
    ins = {name.name: _symbol(name) for name in header.ins}
    outs = {name.name: _symbol(name) for name in header.outs}
    resolver.statements(body.statements, [ins, outs])
    infer_nats(resolver.sources)


def flavour(expr: Expr) -> str:
    """The type Dafny 2.3 gives an integer expression: INT, NAT, PERHAPS_NAT, or NEUTRAL where it follows the context.

    Dafny infers a nat for a local whose values are nats, gives `-e`, `e + 1`, ... the type of that local, and demands
    that such results are not negative; an operand of declared type makes the result an int. What exactly it infers
    depends on the order of its constraints, so this only bounds it: what is not PERHAPS_NAT is never checked there.
    """
    match expr:
        case Variable(symbol=Symbol() as symbol):
            if symbol.inferred:
                return PERHAPS_NAT if symbol.perhaps_nat else NEUTRAL
            return symbol.type
        case Unary(op="-"):
            operand = flavour(expr.operand)
            return PERHAPS_NAT if operand == NAT else operand
        case Binary() if expr.op in ARITHMETIC:
            operands = {flavour(expr.left), flavour(expr.right)}
            if operands & {INT, NAT}:
                return INT
            return PERHAPS_NAT if PERHAPS_NAT in operands else NEUTRAL
        case Conditional():
            return PERHAPS_NAT if PERHAPS_NAT in (flavour(expr.yes), flavour(expr.no)) else NEUTRAL
        case _:
            return NEUTRAL


def infer_nats(sources: list[tuple[Symbol, Expr]]) -> None:
    """Marks the inferred locals that are ever assigned something that may be a nat (a least fixed point).

    Those that are assigned nothing else, directly or through another local, are nats.
    """
    changed = True
    while changed:
        changed = False
        for symbol, value in sources:
            if not symbol.perhaps_nat and flavour(value) in (NAT, PERHAPS_NAT):
                symbol.perhaps_nat = changed = True
    mixed: set[Symbol] = set()
    changed = True
    while changed:
        changed = False
        for symbol, value in sources:
            if symbol not in mixed and (flavour(value) == INT or symbols(value) & mixed):
                mixed.add(symbol)
                changed = True
    for symbol, _ in sources:
        if symbol.perhaps_nat and symbol not in mixed:
            symbol.type = NAT


def _symbol(name: Name) -> Symbol:
    assert name.symbol is not None
    return name.symbol


def _declare(name: Name, role: str, scope: Scope, inferred: str | None = None) -> Symbol:
    if name.name in scope:
        raise MalformedError(Reason.SCOPE, f"`{name.name}` is declared twice", name.offset)
    kind = name.type or inferred
    assert kind is not None
    name.symbol = scope[name.name] = Symbol(name.name, kind, role, inferred=name.type is None)
    return name.symbol


def _lookup(name: str, offset: int, scopes: list[Scope]) -> Symbol:
    for scope in reversed(scopes):
        if name in scope:
            return scope[name]
    raise MalformedError(Reason.SCOPE, f"`{name}` is not declared here", offset)


def _expect(expr: Expr, kind: str, scopes: list[Scope]) -> None:
    found = type_of(expr, scopes)
    if found != kind:
        raise MalformedError(Reason.TYPE, f"expected {kind}, found {found}", expr.offset)


def type_of(expr: Expr, scopes: list[Scope]) -> str:
    """INT or BOOL; sets the symbols of the variables inside.

    Raises:
        MalformedError: an unknown name or an operand of the wrong type.
    """
    match expr:
        case IntLiteral():
            return INT
        case BoolLiteral():
            return BOOL
        case Variable():
            expr.symbol = _lookup(expr.name, expr.offset, scopes)
            return BOOL if expr.symbol.type == BOOL else INT
        case Unary():
            kind = INT if expr.op == "-" else BOOL
            _expect(expr.operand, kind, scopes)
            return kind
        case Binary():
            return _type_of_binary(expr, scopes)
        case Chain():
            kind = type_of(expr.operands[0], scopes)
            if kind != INT and ORDER & set(expr.ops):
                raise MalformedError(Reason.TYPE, f"expected int, found {kind}", expr.offset)
            for operand in expr.operands[1:]:
                _expect(operand, kind, scopes)
            return BOOL
        case Conditional():
            _expect(expr.test, BOOL, scopes)
            kind = type_of(expr.yes, scopes)
            _expect(expr.no, kind, scopes)
            return kind


def _type_of_binary(expr: Binary, scopes: list[Scope]) -> str:
    if expr.op in EQUALITY:
        kind = type_of(expr.left, scopes)
    else:
        kind = INT if expr.op in ARITHMETIC or expr.op in ORDER else BOOL
        _expect(expr.left, kind, scopes)
    _expect(expr.right, kind, scopes)
    return INT if expr.op in ARITHMETIC else BOOL


@dataclass
class _BodyResolver:
    header: Header
    sources: list[tuple[Symbol, Expr]] = field(default_factory=list)  # every value given to an inferred local
    assigned: list[Symbol] = field(default_factory=list)  # in program order, of the whole body so far

    def statements(self, statements: list[Statement], scopes: list[Scope]) -> None:
        for statement in statements:
            self.statement(statement, scopes)

    def statement(self, statement: Statement, scopes: list[Scope]) -> None:
        match statement:
            case Declare():
                self.declare(statement, scopes)
            case Assign():
                self.assign(statement, scopes)
            case If():
                _expect(statement.test, BOOL, scopes)
                self.statements(statement.yes.statements, [*scopes, {}])
                if statement.no is not None:
                    self.statement(statement.no, scopes)
            case While():
                self.loop(statement, scopes)
            case Return():
                self.give_back(statement, scopes)
            case Assert():
                _expect(statement.condition, BOOL, scopes)
            case Block():
                self.statements(statement.statements, [*scopes, {}])

    def declare(self, statement: Declare, scopes: list[Scope]) -> None:
        names, values = statement.names, statement.values
        if values and len(names) != len(values):
            self.wrong_number(len(names), len(values), statement.offset)
        kinds = [type_of(value, scopes) for value in values]  # before the new names are in scope, as in Dafny
        for index, name in enumerate(names):
            if name.type is None and not values:
                raise MalformedError(Reason.TYPE, f"`{name.name}` needs a type or a value", name.offset)
            symbol = _declare(name, "local", scopes[-1], kinds[index] if values else None)
            if values:
                self.give(symbol, values[index], kinds[index])

    def assign(self, statement: Assign, scopes: list[Scope]) -> None:
        names, values = statement.names, statement.values
        if len(names) != len(values):
            self.wrong_number(len(names), len(values), statement.offset)
        for name in names:
            name.symbol = _lookup(name.name, name.offset, scopes)
            if name.symbol.role == "in":
                raise MalformedError(Reason.SCOPE, f"`{name.name}` is a parameter: it cannot change", name.offset)
        if len({name.name for name in names}) != len(names):
            raise MalformedError(Reason.SCOPE, "one assignment gives two values to one name", statement.offset)
        for name, value in zip(names, values, strict=True):
            self.give(_symbol(name), value, type_of(value, scopes))

    def give(self, symbol: Symbol, value: Expr, kind: str) -> None:
        if (symbol.type == BOOL) != (kind == BOOL):
            raise MalformedError(Reason.TYPE, f"`{symbol.name}` is {symbol.type}, the value is {kind}", value.offset)
        self.assigned.append(symbol)
        if symbol.inferred and symbol.type != BOOL:
            self.sources.append((symbol, value))

    def loop(self, statement: While, scopes: list[Scope]) -> None:
        _expect(statement.test, BOOL, scopes)
        for condition in statement.invariants:
            _expect(condition, BOOL, scopes)
        for measure in statement.decreases:
            _expect(measure, INT, scopes)
        first = len(self.assigned)
        self.statements(statement.body.statements, [*scopes, {}])
        visible = {id(symbol) for scope in scopes for symbol in scope.values()}
        seen = dict.fromkeys(self.assigned[first:])
        statement.targets = [symbol for symbol in seen if id(symbol) in visible]

    def give_back(self, statement: Return, scopes: list[Scope]) -> None:
        outs = self.header.outs
        if not statement.values:
            return
        if len(statement.values) != len(outs):
            self.wrong_number(len(outs), len(statement.values), statement.offset)
        for out, value in zip(outs, statement.values, strict=True):
            symbol = _symbol(out)
            kind = type_of(value, scopes)
            if (symbol.type == BOOL) != (kind == BOOL):
                message = f"`{symbol.name}` is {symbol.type}, the value is {kind}"
                raise MalformedError(Reason.TYPE, message, value.offset)

    @staticmethod
    def wrong_number(names: int, values: int, offset: int) -> None:
        raise MalformedError(Reason.TYPE, f"{names} names for {values} values", offset)
