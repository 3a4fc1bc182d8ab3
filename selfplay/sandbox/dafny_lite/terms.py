"""SMT-LIB terms as text: building text is far cheaper than z3's Python objects, and z3 parses it without the GIL.

Every constructor simplifies only by laws that hold for all values, so a goal that becomes "true" here is proved. A
term is "true", "false", an integer literal, a constant's name, or a parenthesised application.
"""

from __future__ import annotations

import re

TRUE, FALSE = "true", "false"
_DEFINED = re.compile(r"d@\d+")
_SHARE_FROM = 40  # characters from which a term gets a name of its own


def number(value: int) -> str:
    return str(value) if value >= 0 else f"(- {-value})"


def literal(term: str) -> int | None:
    """The value of an integer literal, None for any other term."""
    if term.isdigit():
        return int(term)
    if term.startswith("(- ") and term[3:-1].isdigit():
        return -int(term[3:-1])
    return None


def lnot(term: str) -> str:
    if term == TRUE:
        return FALSE
    if term == FALSE:
        return TRUE
    if term.startswith("(not "):
        return term[5:-1]
    return f"(not {term})"


def land(*terms: str) -> str:
    kept = dict.fromkeys(term for term in terms if term != TRUE)
    if FALSE in kept:
        return FALSE
    if not kept:
        return TRUE
    return next(iter(kept)) if len(kept) == 1 else f"(and {' '.join(kept)})"


def lor(*terms: str) -> str:
    kept = dict.fromkeys(term for term in terms if term != FALSE)
    if TRUE in kept:
        return TRUE
    if not kept:
        return FALSE
    return next(iter(kept)) if len(kept) == 1 else f"(or {' '.join(kept)})"


def implies(left: str, right: str) -> str:
    if left in (FALSE, right) or right == TRUE:
        return TRUE
    if left == TRUE:
        return right
    return lnot(left) if right == FALSE else f"(=> {left} {right})"


def equal(left: str, right: str) -> str:
    """Equality of two integers or two booleans."""
    if left == right:
        return TRUE
    if left == TRUE or right == TRUE:
        return right if left == TRUE else left
    if left == FALSE or right == FALSE:
        return lnot(right if left == FALSE else left)
    if literal(left) is not None and literal(right) is not None:
        return FALSE
    return f"(= {left} {right})"


def ite(test: str, yes: str, no: str) -> str:
    if test == TRUE or yes == no:
        return yes
    return no if test == FALSE else f"(ite {test} {yes} {no})"


def compare(op: str, left: str, right: str) -> str:
    """`op` one of <, <=, >, >=."""
    if left == right:
        return TRUE if op in ("<=", ">=") else FALSE
    a, b = literal(left), literal(right)
    if a is not None and b is not None:
        holds = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]
        return TRUE if holds else FALSE
    return f"({op} {left} {right})"


def arithmetic(op: str, left: str, right: str) -> str:
    """`op` one of + - * / %. SMT-LIB's `div` and `mod` are Dafny's: 0 <= a mod b < |b| for every b != 0."""
    a, b = literal(left), literal(right)
    if op == "+":
        if a is not None and b is not None:
            return number(a + b)
        return left if b == 0 else right if a == 0 else f"(+ {left} {right})"
    if op == "-":
        if a is not None and b is not None:
            return number(a - b)
        return left if b == 0 else f"(- {left} {right})"
    if op == "*":
        if a is not None and b is not None:
            return number(a * b)
        return left if b == 1 else right if a == 1 else f"(* {left} {right})"
    return f"({'div' if op == '/' else 'mod'} {left} {right})"


def negate(term: str) -> str:
    value = literal(term)
    return number(-value) if value is not None else f"(- {term})"


class Declarations:
    """The constants and definitions of one script, in order of use.

    Names contain `@`, which neither Dafny's names nor those that z3 makes up do.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._shared: dict[str, str] = {}
        self._degrees: dict[str, int] = {}  # of the names whose degree as a polynomial is above 1

    def copy(self) -> Declarations:
        """An independent continuation: what is added to it stays out of this one."""
        other = Declarations()
        other.lines, other._shared, other._degrees = [*self.lines], {**self._shared}, {**self._degrees}
        return other

    def constant(self, sort: str, hint: str = "c") -> str:
        """A fresh constant of sort "Int" or "Bool"."""
        name = f"{hint}@{len(self.lines)}"
        self.lines.append(f"(declare-const {name} {sort})")
        return name

    def share(self, term: str, sort: str) -> str:
        """`term`, or a name for it when it is long: no term grows by being used twice."""
        return term if len(term) < _SHARE_FROM or literal(term) is not None else self._name(term, sort)

    def product(self, left: str, right: str) -> tuple[str, int]:
        """Their product and its degree in what is not a literal; a degree above 1 always has a name."""
        term = arithmetic("*", left, right)
        if literal(left) is not None or literal(right) is not None:
            return term, self._degree(term)
        degree = self._degree(left) + self._degree(right)
        name = self._name(term, "Int")
        self._degrees[name] = degree
        return name, degree

    def _name(self, term: str, sort: str) -> str:
        name = self._shared.get(term)
        if name is None:
            name = self._shared[term] = f"d@{len(self.lines)}"
            degree = self._degree(term)
            if degree > 1:
                self._degrees[name] = degree
            self.lines.append(f"(define-fun {name} () {sort} {term})")
        return name

    def _degree(self, term: str) -> int:
        """Outside named products a term is linear, so its degree is that of its highest name."""
        if not self._degrees:
            return 1
        return max((self._degrees.get(name, 1) for name in _DEFINED.findall(term)), default=1)
