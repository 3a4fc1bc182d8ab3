"""Syntax trees to text, every operand in parentheses: one text for each tree."""

from __future__ import annotations

from collections.abc import Callable

from selfplay.sandbox.dafny_lite.syntax import (
    Binary,
    BoolLiteral,
    Chain,
    Conditional,
    Expr,
    Header,
    IntLiteral,
    Name,
    Unary,
    Variable,
)


def print_expr(expr: Expr, rename: Callable[[str], str] = str, number: Callable[[int], str] = str) -> str:
    """`expr` with explicit grouping; `rename` maps its names, `number` its integer literals."""

    def show(child: Expr) -> str:
        text = print_expr(child, rename, number)
        return text if isinstance(child, Variable | IntLiteral | BoolLiteral) else f"({text})"

    match expr:
        case IntLiteral():
            return number(expr.value)
        case BoolLiteral():
            return "true" if expr.value else "false"
        case Variable():
            return rename(expr.name)
        case Unary():
            return f"{expr.op}{show(expr.operand)}"
        case Binary():
            return f"{show(expr.left)} {expr.op} {show(expr.right)}"
        case Chain():
            rest = [f"{op} {show(operand)}" for op, operand in zip(expr.ops, expr.operands[1:], strict=True)]
            return " ".join([show(expr.operands[0]), *rest])
        case Conditional():
            return f"if {show(expr.test)} then {show(expr.yes)} else {show(expr.no)}"


def print_header(header: Header, rename: Callable[[str], str] = str, number: Callable[[int], str] = str) -> str:
    """`header`, one clause a line, preconditions first; `rename` maps variables only, the method keeps its name."""

    def declared(names: list[Name]) -> str:
        return ", ".join(f"{rename(name.name)}: {name.type}" for name in names)

    lines = [f"method {header.name}({declared(header.ins)}) returns ({declared(header.outs)})"]
    lines += [f"  requires {print_expr(clause, rename, number)}" for clause in header.requires]
    lines += [f"  ensures {print_expr(clause, rename, number)}" for clause in header.ensures]
    return "\n".join(lines)
