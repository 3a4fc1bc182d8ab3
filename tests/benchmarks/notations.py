"""A gold answer in other notations that mean the same, and near misses that do not.

Each rule takes the text of an answer and gives another text, or None where it does not apply. `same(gold)` are the
first ten of the former that do, `wrong(gold)` all of the latter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

Rule = Callable[[str], str | None]

INTEGER = re.compile(r"-?\d+")
DECIMAL = re.compile(r"-?\d*\.\d+")
FRACTION = re.compile(r"(-?)\\d?frac\{(\d+)\}\{(\d+)\}")
LIST = re.compile(r"-?\d+(, ?-?\d+)+")
PAIR = re.compile(r"(\\left)?([(\[])(.*?),(.*?)(\\right)?([)\]])", re.DOTALL)
WORD = re.compile(r"\\text\{([A-Za-z]+)\}")
BASE = re.compile(r"(\d+)_\{?(\d)\}?")


def value_of(gold: str) -> Fraction | None:
    """The rational number that a plain answer is."""
    if INTEGER.fullmatch(gold) or DECIMAL.fullmatch(gold):
        return Fraction(Decimal(gold))
    found = FRACTION.fullmatch(gold)
    return Fraction(int(found[2]), int(found[3])) * (-1 if found[1] else 1) if found else None


def _is_list(gold: str) -> bool:
    return bool(LIST.fullmatch(gold)) and not re.fullmatch(r"\d{1,3}(,\d{3})+", gold)


def _only_if_changed(made: Callable[[str], str]) -> Rule:
    return lambda gold: text if (text := made(gold)) != gold else None


def _decimal(gold: str) -> str | None:
    value = value_of(gold)
    if value is None or DECIMAL.fullmatch(gold):
        return None
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1:
        return None
    shown = format((Decimal(value.numerator) / Decimal(value.denominator)).normalize(), "f")
    return shown if "." in shown else shown + ".0"


def _over_one(gold: str) -> str | None:
    return rf"\frac{{{gold}}}{{1}}" if INTEGER.fullmatch(gold) else None


def _slash(gold: str) -> str | None:
    found = FRACTION.fullmatch(gold)
    return f"{found[1]}{found[2]}/{found[3]}" if found else None


def _minus_inside(gold: str) -> str | None:
    found = FRACTION.fullmatch(gold)
    return rf"\frac{{-{found[2]}}}{{{found[3]}}}" if found and found[1] else None


def _expanded(gold: str) -> str | None:
    found = FRACTION.fullmatch(gold)
    return rf"{found[1]}\frac{{{3 * int(found[2])}}}{{{3 * int(found[3])}}}" if found else None


def _grouped(gold: str) -> str | None:
    return f"{int(gold):,}" if INTEGER.fullmatch(gold) and abs(int(gold)) >= 1000 else None


def _named(gold: str) -> str | None:
    return f"x = {gold}" if value_of(gold) is not None else None


def _with_unit(gold: str) -> str | None:
    return rf"{gold} \text{{ units}}" if value_of(gold) is not None else None


def _in_money(gold: str) -> str | None:
    return rf"\${gold}" if value_of(gold) is not None and not gold.startswith(("-", "\\")) else None


def _other_order(gold: str) -> str | None:
    return ", ".join(reversed([part.strip() for part in gold.split(",")])) if _is_list(gold) else None


def _plain_word(gold: str) -> str | None:
    found = WORD.fullmatch(gold)
    return found[1] if found else None


def _letter(gold: str) -> str | None:
    found = re.fullmatch(r"\\text\{\(([A-E])\)\}", gold)
    return found[1] if found else None


def _other_brackets(gold: str) -> str:
    if r"\left" in gold:
        return gold.replace(r"\left", "").replace(r"\right", "")
    return re.sub(r"[)\]]$", lambda m: r"\right" + m[0], re.sub(r"^[(\[]", lambda m: r"\left" + m[0], gold))


SAME: dict[str, Rule] = {
    "decimal": _decimal,
    "over one": _over_one,
    "slash": _slash,
    "minus inside": _minus_inside,
    "expanded": _expanded,
    "thousands": _grouped,
    "thousands removed": _only_if_changed(lambda g: g if g[0] in "([" else re.sub(r"(?<=\d),(\\!)? ?(?=\d{3})", "", g)),
    "named": _named,
    "unit": _with_unit,
    "money": _in_money,
    "other order": _other_order,
    "plain word": _plain_word,
    "letter": _letter,
    "dfrac": _only_if_changed(lambda g: re.sub(r"\\frac(?=\{)", r"\\dfrac", g)),
    "frac": _only_if_changed(lambda g: g.replace(r"\dfrac", r"\frac")),
    "brackets": _only_if_changed(_other_brackets),
    "degrees": _only_if_changed(lambda g: g.replace(r"^\circ", r"^{\circ}")),
    "no degrees": _only_if_changed(lambda g: g.replace(r"^\circ", "")),
    "root": _only_if_changed(lambda g: re.sub(r"\\sqrt\{(\d)\}", r"\\sqrt\1", g)),
    "times": _only_if_changed(lambda g: re.sub(r"(\d) ?(\\sqrt|\\pi)", r"\1 \\cdot \2", g)),
    "unicode": _only_if_changed(
        lambda g: g.replace("-", "\u2212").replace(r"\pi", "\u03c0 ").replace(r"\infty", "\u221e")
    ),
    "mathrm": _only_if_changed(lambda g: g.replace(r"\text{", r"\mathrm{")),
    "tight rows": _only_if_changed(lambda g: re.sub(r" *\\\\ *", r"\\\\", g)),
    "matrix": _only_if_changed(lambda g: g.replace("pmatrix", "bmatrix")),
    "dollars": lambda g: f"${g}$",
    "full stop": lambda g: f"{g}.",
    "blanks": lambda g: f"  {g} ",
    "display": lambda g: rf"\displaystyle {g}",
    "braces": lambda g: f"{{{g}}}",
    "inline": lambda g: rf"\({g}\)",
    "boxed": lambda g: rf"\boxed{{{g}}}",
    "thin space": lambda g: rf"{g}\,",
    "display math": lambda g: rf"\[ {g} \]",
    "two dollars": lambda g: f"$${g}$$.",
    "bold": lambda g: rf"\mathbf{{{g}}}" if value_of(g) is not None else None,
}


def _number_miss(change: Callable[[Fraction], Fraction]) -> Rule:
    def rule(gold: str) -> str | None:
        value = value_of(gold)
        if value is None or change(value) == value:
            return None
        changed = change(value)
        return (
            str(changed.numerator)
            if changed.denominator == 1
            else rf"\frac{{{changed.numerator}}}{{{changed.denominator}}}"
        )

    return rule


def _digit(gold: str) -> str | None:
    """The first digit changed, in any answer that has one."""
    found = re.search(r"\d", gold)
    return gold[: found.start()] + str((int(found[0]) + 1) % 9 + 1) + gold[found.end() :] if found else None


def _swapped(gold: str) -> str | None:
    found = PAIR.fullmatch(gold)
    if not found or found[3].strip() == found[4].strip() or "," in found[4]:
        return None
    return f"{found[2]}{found[4]},{found[3]}{found[6]}"


def _one_left_out(gold: str) -> str | None:
    return gold.rsplit(",", 1)[0] if _is_list(gold) else None


def _other_word(gold: str) -> str | None:
    found = WORD.fullmatch(gold)
    return r"\text{" + found[1][::-1] + "}" if found else None


def _other_letter(gold: str) -> str | None:
    found = re.fullmatch(r"\\text\{\(([A-E])\)\}", gold)
    return "ABCDE"[("ABCDE".index(found[1]) + 1) % 5] if found else None


def _other_base(gold: str) -> str | None:
    found = BASE.fullmatch(gold)
    return f"{found[1]}_{{{int(found[2]) + 1}}}" if found else None


def _negated(gold: str) -> str | None:
    return None if WORD.search(gold) or gold == "0" or "=" in gold or r"\pm" in gold else f"-({gold})"


def _rows_swapped(gold: str) -> str | None:
    found = re.fullmatch(r"(\\begin\{pmatrix\}) *(.*?) *\\\\ *(.*?)( *\\\\.*)?(\\end\{pmatrix\})", gold)
    if not found or found[2].strip() == found[3].strip():
        return None
    return f"{found[1]} {found[3]} \\\\ {found[2]}{found[4] or ''} {found[5]}"


MISS: dict[str, Rule] = {
    "rows swapped": _rows_swapped,
    "one more": _number_miss(lambda v: v + 1),
    "tenfold": _number_miss(lambda v: v * 10),
    "a thousandth more": _number_miss(lambda v: v * Fraction(1001, 1000)),
    "upside down": _number_miss(lambda v: 1 / v if v else v),
    "negated": _negated,
    "digit": _digit,
    "swapped": _swapped,
    "one left out": _one_left_out,
    "other word": _other_word,
    "other letter": _other_letter,
    "other base": _other_base,
    "closed": _only_if_changed(lambda g: re.sub(r"^\((?!-\\infty)", "[", g) if PAIR.fullmatch(g) else g),
    "sign": _only_if_changed(lambda g: re.sub(r"(?<=[\w} ])[+-]", lambda m: "+-"[m[0] == "+"], g, count=1)),
    "squared": lambda g: f"({g})^2" if re.search(r"\\(pi|sqrt)|[a-z]$", g) and not re.search(r"text|[=,]", g) else None,
    "hedged": lambda g: f"{g} \\lor 5",
    "bound": lambda g: f"> {g}" if value_of(g) is not None else None,
    "three answers": lambda g: f"\\({g}\\), \\(98\\), \\(99\\)",
    "two answers": lambda g: f"{g} \\text{{ or }} 987654",
    "two answers, comma": lambda g: f"{g}, 987654",
    "nothing": lambda g: "",
    "a question": lambda g: "?",
}


def same(gold: str) -> dict[str, str]:
    """Ten notations of the same answer, by the name of their rule."""
    found = {name: text for name, rule in SAME.items() if (text := rule(gold)) is not None}
    return dict(list(found.items())[:10])


def wrong(gold: str) -> dict[str, str]:
    """Near misses, by the name of their rule."""
    return {name: text for name, rule in MISS.items() if (text := rule(gold)) is not None}
