"""Tokens to syntax trees: lark's LALR(1) parser over our lexemes, its tables built once per process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, TypeVar

from lark import Lark, Token, Transformer, UnexpectedInput, v_args
from lark.exceptions import UnexpectedToken, VisitError
from lark.lexer import Lexer

from selfplay.sandbox.dafny_lite.errors import MalformedError, Reason
from selfplay.sandbox.dafny_lite.grammar import GRAMMAR
from selfplay.sandbox.dafny_lite.lexer import TERMINALS, Lexeme
from selfplay.sandbox.dafny_lite.syntax import (
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
    Unary,
    Variable,
    While,
)

MAX_DEPTH = 80  # of an expression tree, and of a chain of `else if`
_Tree = TypeVar("_Tree", Header, Block)

_ASCENDING, _DESCENDING = {"<", "<=", "=="}, {">", ">=", "=="}


def parse_header(lexemes: list[Lexeme]) -> Header:
    """The specification these tokens are; all of them.

    Raises:
        MalformedError: they are not one method header with its clauses.
    """
    return _parse(lexemes, "header", Header)


def parse_block(lexemes: list[Lexeme]) -> Block:
    """The body these tokens are; all of them.

    Raises:
        MalformedError: they are not one block.
    """
    return _parse(lexemes, "block", Block)


def _parse(lexemes: list[Lexeme], start: str, kind: type[_Tree]) -> _Tree:
    try:
        tree = _lark().parse(lexemes, start=start)  # type: ignore[arg-type]  # our lexer takes lexemes, not text
    except VisitError as error:
        if isinstance(error.orig_exc, MalformedError):
            raise error.orig_exc from None
        raise
    except UnexpectedToken as error:
        end = lexemes[-1].offset + len(lexemes[-1].text) if lexemes else 0
        if error.token.type == "$END":
            raise MalformedError(Reason.SYNTAX, "unexpected end of text", end) from None
        raise MalformedError(Reason.SYNTAX, f"unexpected `{error.token}`", error.token.start_pos or 0) from None
    except UnexpectedInput as error:  # the type lark declares; with our lexer it is always UnexpectedToken
        raise MalformedError(Reason.SYNTAX, "does not parse", error.pos_in_stream or 0) from None
    assert isinstance(tree, kind)
    return tree


class _LexemeLexer(Lexer):
    """Hands lark the lexemes it is given."""

    def __init__(self, lexer_conf: Any) -> None:
        pass

    def lex(self, lexemes: Any, parser_state: Any = None) -> Iterator[Token]:
        source = getattr(lexemes, "text", lexemes)
        for lexeme in source:
            yield Token(lexeme.kind, lexeme.text, lexeme.offset)


@cache
def _lark() -> Lark:
    declared = "\n".join(f"%declare {name}" for name in TERMINALS)
    return Lark(
        f"{GRAMMAR}\n{declared}",
        parser="lalr",
        lexer=_LexemeLexer,
        start=["header", "block"],
        transformer=_Builder(),
        maybe_placeholders=True,
    )


def _deep(node: Expr, *children: Expr) -> Expr:
    node.depth = 1 + max(child.depth for child in children)
    if node.depth > MAX_DEPTH:
        raise MalformedError(Reason.LIMIT, f"an expression nested deeper than {MAX_DEPTH}", node.offset)
    return node


def _at(token: Token) -> int:
    assert token.start_pos is not None
    return token.start_pos


@v_args(inline=True)
class _Builder(Transformer[Token, Any]):
    """Grammar rules to nodes of `syntax`; method names are rule names and aliases."""

    def header(self, method: Token, name: Token, *rest: Any) -> Header:
        ins, outs, clauses = rest[1], rest[5], rest[7:]
        requires = [condition for keyword, condition in clauses if keyword == "requires"]
        ensures = [condition for keyword, condition in clauses if keyword == "ensures"]
        return Header(str(name), ins or [], outs, requires, ensures, _at(method))

    def params(self, *items: Any) -> list[Name]:
        return list(items[::2])

    def param(self, name: Token, colon: Token, kind: Token) -> Name:
        return Name(str(name), str(kind), _at(name))

    def requires(self, keyword: Token, condition: Expr) -> tuple[str, Expr]:
        return "requires", condition

    def ensures(self, keyword: Token, condition: Expr) -> tuple[str, Expr]:
        return "ensures", condition

    def block(self, opening: Token, *rest: Any) -> Block:
        return Block(list(rest[:-1]), _at(opening), _at(rest[-1]))

    def declare(self, var: Token, *rest: Any) -> Declare:
        names = [item for item in rest if isinstance(item, Name)]
        values = next((item for item in rest if isinstance(item, list)), [])
        return Declare(names, values, _at(var))

    def local(self, name: Token, colon: Token | None, kind: Token | None) -> Name:
        return Name(str(name), None if kind is None else str(kind), _at(name))

    def names(self, *items: Token) -> list[Name]:
        return [Name(str(item), None, _at(item)) for item in items[::2]]

    def exprs(self, *items: Any) -> list[Expr]:
        return list(items[::2])

    def assign(self, names: list[Name], assign: Token, values: list[Expr], semi: Token) -> Assign:
        return Assign(names, values, names[0].offset)

    def if_statement(self, keyword: Token, test: Expr, yes: Block, or_else: Any, no: Any) -> If:
        branch, length = no, 0
        while isinstance(branch, If):
            branch, length = branch.no, length + 1
        if length > MAX_DEPTH:
            raise MalformedError(Reason.LIMIT, f"more than {MAX_DEPTH} `else if`", _at(keyword))
        return If(test, yes, no, _at(keyword))

    def while_loop(self, keyword: Token, test: Expr, *rest: Any) -> While:
        invariants = [condition for kind, condition in rest[:-1] if kind == "invariant"]
        decreases = [measure for kind, measure in rest[:-1] if kind == "decreases"]
        if len(decreases) > 1:
            raise MalformedError(Reason.SYNTAX, "more than one `decreases` on a loop", _at(keyword))
        return While(test, invariants, decreases[0] if decreases else [], rest[-1], _at(keyword))

    def invariant(self, keyword: Token, condition: Expr) -> tuple[str, Expr]:
        return "invariant", condition

    def decreases(self, keyword: Token, measures: list[Expr]) -> tuple[str, list[Expr]]:
        return "decreases", measures

    def return_(self, keyword: Token, values: list[Expr] | None, semi: Token) -> Return:
        return Return(values or [], _at(keyword))

    def assert_(self, keyword: Token, condition: Expr, semi: Token) -> Statement:
        return Assert(condition, _at(keyword))

    def binary(self, left: Expr, op: Token, right: Expr) -> Expr:
        return _deep(Binary(str(op), left, right, left.offset), left, right)

    def chain(self, *items: Any) -> Expr:
        operands, ops = list(items[::2]), [str(op) for op in items[1::2]]
        if len(ops) == 1:
            return self.binary(operands[0], items[1], operands[1])
        if not (set(ops) <= _ASCENDING or set(ops) <= _DESCENDING):
            message = "a chain of comparisons must be all of <, <=, == or all of >, >=, =="
            raise MalformedError(Reason.SYNTAX, message, operands[0].offset)
        return _deep(Chain(ops, operands, operands[0].offset), *operands)

    def unary_op(self, op: Token, operand: Expr) -> Expr:
        return _deep(Unary(str(op), operand, _at(op)), operand)

    def integer(self, digits: Token) -> Expr:
        return IntLiteral(int(digits.replace("_", "")), _at(digits))

    def true(self, token: Token) -> Expr:
        return BoolLiteral(True, _at(token))

    def false(self, token: Token) -> Expr:
        return BoolLiteral(False, _at(token))

    def variable(self, name: Token) -> Expr:
        return Variable(str(name), _at(name))

    def parenthesised(self, opening: Token, inner: Expr, closing: Token) -> Expr:
        return inner

    def conditional(self, keyword: Token, test: Expr, then: Token, yes: Expr, or_else: Token, no: Expr) -> Expr:
        return _deep(Conditional(test, yes, no, _at(keyword)), test, yes, no)
