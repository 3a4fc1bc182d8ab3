"""The families of the micro-domain, each a ladder of rungs from easy to hard. See `grammar` for the placeholders.

Every body verifies for every draw: `tests/ancora/test_families.py` instantiates and proves all of them.
"""

from __future__ import annotations

from selfplay.algos.ancora.grammar import Rung, Template

T = Template

LINEAR = (
    Rung(
        1,
        "copy",
        (T("x", "r", "r == {x} {s} {a}", "r := {x} {s} {a};"), T("x", "r", "r == {k} * {x}", "r := {k} * {x};")),
    ),
    Rung(1, "copy", (T("xy", "r", "r == {x} {s} {y}", "r := {x} {s} {y};"), T("x", "r", "r == {e1}", "r := {e1};"))),
    Rung(2, "copy", (T("xy", "r", "r == {e2}", "r := {e2};"), T("xyz", "r", "r == {e3}", "r := {e3};"))),
    Rung(
        2,
        "copy",
        (
            T("xy", "r", "r == {x} {s} {y} {t} {a}", "r := {x} {s} {y} {t} {a};"),
            T("xy", "r", "r == {k} * {x} {s} {y}", "r := {k} * {x} {s} {y};"),
            T("xyz", "r", "r == {x} {s} {y} {t} {z}", "r := {x} {s} {y} {t} {z};"),
        ),
    ),
    Rung(
        3,
        "copy",
        (
            T("xy", "r", "r == {k} * {x} {s} {m} * {y} {t} {a}", "r := {k} * {x} {s} {m} * {y} {t} {a};"),
            T("xyz", "r", "r == {k} * ({x} {s} {y}) {t} {z}", "r := {k} * ({x} {s} {y}) {t} {z};"),
            T("xyz", "r", "r == {e3} {s} {m} * {y}", "r := {e3} {s} {m} * {y};"),
            T("xy", "r", "r == {k} * ({e2})", "r := {k} * ({e2});"),
        ),
    ),
)

INVERSE = (
    Rung(
        2,
        "solve",
        (
            T("x", "r", "r + {a} == {x}", "r := {x} - {a};"),
            T("x", "r", "r - {a} == {x}", "r := {x} + {a};"),
            T("x", "r", "{x} - r == {a}", "r := {x} - {a};"),
        ),
    ),
    Rung(
        2,
        "solve",
        (
            T("xy", "r", "r + {x} == {y}", "r := {y} - {x};"),
            T("xy", "r", "r - {x} == {y}", "r := {y} + {x};"),
            T("xy", "r", "{x} - r == {y}", "r := {x} - {y};"),
        ),
    ),
    Rung(
        3,
        "solve",
        (
            T("xy", "r", "r + {x} == {k} * {y}", "r := {k} * {y} - {x};"),
            T("xy", "r", "{x} - r == {k} * {y}", "r := {x} - {k} * {y};"),
            T("xy", "r", "r - {x} == {y} + {a}", "r := {x} + {y} + {a};"),
            T("xy", "r", "r + {x} == {e2}", "r := {e2} - {x};"),
            T("xy", "r", "r - {x} == {e2}", "r := {e2} + {x};"),
        ),
    ),
    Rung(
        4,
        "solve",
        (
            T("xyz", "r", "r + {x} - {y} == {k} * {z}", "r := {k} * {z} - {x} + {y};"),
            T("xy", "r", "r + {k} * {x} == {y} - {a}", "r := {y} - {a} - {k} * {x};"),
        ),
    ),
)

CASES = (
    Rung(
        2,
        "branch",
        (
            T(
                "x",
                "r",
                "r >= {x} ; r >= {a} ; r == {x} || r == {a}",
                "if {x} > {a} {{ r := {x}; }} else {{ r := {a}; }}",
            ),
            T("x", "r", "r >= 0 ; r == {x} || r == -{x}", "if {x} > 0 {{ r := {x}; }} else {{ r := -{x}; }}"),
            T(
                "x",
                "r",
                "r <= {x} ; r <= {a} ; r == {x} || r == {a}",
                "if {x} < {a} {{ r := {x}; }} else {{ r := {a}; }}",
            ),
        ),
    ),
    Rung(
        3,
        "branch",
        (
            T(
                "xy",
                "r",
                "r >= {x} ; r >= {y} ; r == {x} || r == {y}",
                "if {x} > {y} {{ r := {x}; }} else {{ r := {y}; }}",
            ),
            T(
                "xy",
                "r",
                "r <= {x} ; r <= {y} ; r == {x} || r == {y}",
                "if {x} < {y} {{ r := {x}; }} else {{ r := {y}; }}",
            ),
            T(
                "xy",
                "r",
                "{x} > {y} ==> r == {x} {s} {a} ; {x} <= {y} ==> r == {y}",
                "if {x} > {y} {{ r := {x} {s} {a}; }} else {{ r := {y}; }}",
            ),
        ),
    ),
    Rung(
        3,
        "branch",
        (
            T(
                "xy",
                "r",
                "{p2} ==> r == {e2} ; {np2} ==> r == {f2}",
                "if {p2} {{ r := {e2}; }} else {{ r := {f2}; }}",
            ),
            T("x", "r", "{p1} ==> r == {e1} ; {np1} ==> r == {a}", "if {p1} {{ r := {e1}; }} else {{ r := {a}; }}"),
            T(
                "xy",
                "r",
                "{x} < {y} ==> r == {e2} ; {x} >= {y} ==> r == {a}",
                "if {x} < {y} {{ r := {e2}; }} else {{ r := {a}; }}",
            ),
            T(
                "xy",
                "r",
                "{x} > {a} ==> r == {x} {s} {y} ; {x} <= {a} ==> r == {y}",
                "if {x} > {a} {{ r := {x} {s} {y}; }} else {{ r := {y}; }}",
            ),
            T(
                "xy",
                "r",
                "{x} < {y} ==> r == {y} - {x} ; {x} >= {y} ==> r == {x} - {y}",
                "if {x} < {y} {{ r := {y} - {x}; }} else {{ r := {x} - {y}; }}",
            ),
        ),
    ),
    Rung(
        4,
        "branches",
        (
            T(
                "x",
                "r",
                "{x} < 0 ==> r == -{a} ; {x} == 0 ==> r == 0 ; {x} > 0 ==> r == {b}",
                "if {x} < 0 {{ r := -{a}; }} else if {x} == 0 {{ r := 0; }} else {{ r := {b}; }}",
            ),
            T(
                "x",
                "r",
                "{x} < {a} ==> r == {a} ; {x} > {b} ==> r == {b} ; {a} <= {x} && {x} <= {b} ==> r == {x}",
                "if {x} < {a} {{ r := {a}; }} else if {x} > {b} {{ r := {b}; }} else {{ r := {x}; }}",
            ),
            T(
                "xyz",
                "r",
                "r >= {x} ; r >= {y} ; r >= {z} ; r == {x} || r == {y} || r == {z}",
                "r := {x}; if {y} > r {{ r := {y}; }} if {z} > r {{ r := {z}; }}",
            ),
        ),
    ),
)

RELATION = (
    Rung(1, "witness", (T("x", "r", "r > {x}", "r := {x} + 1;"), T("x", "r", "r < {x}", "r := {x} - 1;"))),
    Rung(
        2,
        "witness",
        (
            T("x", "r", "r > {x} + {a}", "r := {x} + {b};"),
            T("x", "r", "r < {x} - {a}", "r := {x} - {b};"),
            T("x", "r", "r != {x}", "r := {x} + 1;"),
        ),
    ),
    Rung(
        3,
        "witness",
        (
            T("x", "r", "{x} < r ; r < {x} + {m}", "r := {x} + 1;"),
            T("x", "r", "r >= {x} + {a} ; r <= {x} + {b}", "r := {x} + {a};"),
            T("xy", "r", "r >= {x} ; r <= {y}", "r := {x};", "{x} <= {y}"),
            T("xy", "r", "r > {e2}", "r := {e2} + 1;"),
            T("xy", "r", "r < {e2}", "r := {e2} - 1;"),
            T("x", "r", "r >= {e1} ; r <= {e1} + {a}", "r := {e1};"),
        ),
    ),
    Rung(
        4,
        "witness",
        (
            T("xy", "r", "r > {x} ; r < {y}", "r := {x} + 1;", "{x} + {a} < {y}"),
            T("xy", "r", "r > {x} ; r > {y}", "if {x} > {y} {{ r := {x} + 1; }} else {{ r := {y} + 1; }}"),
            T("xy", "r", "r < {x} ; r < {y}", "if {x} < {y} {{ r := {x} - 1; }} else {{ r := {y} - 1; }}"),
        ),
    ),
)

BOOLEAN = (
    Rung(
        1,
        "truth",
        (T("x", "b", "b <==> {x} > {a}", "b := {x} > {a};"), T("x", "b", "b <==> {x} == {a}", "b := {x} == {a};")),
    ),
    Rung(
        2,
        "truth",
        (
            T("xy", "b", "b <==> {x} < {y}", "b := {x} < {y};"),
            T("xy", "b", "b <==> {x} + {a} >= {y}", "b := {x} + {a} >= {y};"),
            T("x", "b", "b <==> {p1}", "b := {p1};"),
            T("xy", "b", "b <==> {p2}", "b := {p2};"),
        ),
    ),
    Rung(
        3,
        "truth",
        (
            T("xyz", "b", "b <==> {x} < {y} && {y} < {z}", "b := {x} < {y} && {y} < {z};"),
            T("xy", "b", "b <==> {x} > {a} || {y} > {a}", "b := {x} > {a} || {y} > {a};"),
            T("x", "b", "b <==> {a} <= {x} && {x} <= {b}", "b := {a} <= {x} && {x} <= {b};"),
            T("xy", "b", "b <==> {p2} && {q2}", "b := {p2} && {q2};"),
            T("xy", "b", "b <==> {p2} || {q2}", "b := {p2} || {q2};"),
        ),
    ),
    Rung(
        4,
        "truth",
        (
            T("xy", "b", "b ==> {x} > {y} ; !b ==> {x} <= {y}", "b := {x} > {y};"),
            T("xy", "b", "{x} < {y} ==> b ; {x} >= {y} ==> !b", "b := {x} < {y};"),
            T("xy", "b", "{p2} ==> b ; {np2} ==> !b", "b := {p2};"),
        ),
    ),
)

DIVMOD = (
    Rung(
        1, "copy", (T("x", "r", "r == {x} / {k}", "r := {x} / {k};"), T("x", "r", "r == {x} % {k}", "r := {x} % {k};"))
    ),
    Rung(
        2,
        "copy",
        (
            T("xy", "r", "r == {x} / {k} {s} {y}", "r := {x} / {k} {s} {y};"),
            T("xy", "r", "r == ({x} + {y}) % {k}", "r := ({x} + {y}) % {k};"),
            T("x", "r", "r == {x} % {k} {s} {a}", "r := {x} % {k} {s} {a};"),
            T("xy", "r", "r == ({e2}) / {k}", "r := ({e2}) / {k};"),
        ),
    ),
    Rung(
        3,
        "divide",
        (
            T("x", "r", "{k} * r <= {x} ; {x} < {k} * r + {k}", "r := {x} / {k};"),
            T("x", "r", "r <= {x} ; {x} < r + {k} ; r % {k} == 0", "r := {x} - {x} % {k};"),
        ),
    ),
    Rung(
        4,
        "divide",
        (T("x", "qr", "{x} == {k} * q + r ; 0 <= r ; r < {k}", "q := {x} / {k}; r := {x} % {k};"),),
    ),
)

TWO = (
    Rung(2, "pair", (T("xy", "rs", "r == {y} ; s == {x}", "r := {y}; s := {x};"),)),
    Rung(
        2,
        "pair",
        (
            T("xy", "rs", "r == {x} + {y} ; s == {x} - {y}", "r := {x} + {y}; s := {x} - {y};"),
            T("xy", "rs", "r == {e2} ; s == {f2}", "r := {e2}; s := {f2};"),
            T("x", "rs", "r == {e1} ; s == {f1}", "r := {e1}; s := {f1};"),
            T("xy", "rs", "r == {y} {s} {a} ; s == {k} * {x}", "r := {y} {s} {a}; s := {k} * {x};"),
        ),
    ),
    Rung(
        3,
        "pair",
        (
            T("xy", "rs", "r == {x} {s} {a} ; s == r + {y}", "r := {x} {s} {a}; s := r + {y};"),
            T("xy", "rs", "r + s == {x} ; r == {y}", "r := {y}; s := {x} - {y};"),
        ),
    ),
    Rung(
        4,
        "pair",
        (
            T(
                "xy",
                "rs",
                "r + s == {x} + {y} ; r <= s",
                "if {x} < {y} {{ r := {x}; s := {y}; }} else {{ r := {y}; s := {x}; }}",
            ),
            T("xy", "rs", "r + s == {x} ; r - s == 2 * {y} - {x}", "r := {y}; s := {x} - {y};"),
        ),
    ),
)

LOOP = (
    Rung(3, "copy", (T("x", "r", "r == {x} * ({x} + {a})", "r := {x} * ({x} + {a});", "{x} >= 0"),)),
    Rung(
        5,
        "loop",
        (
            T(
                "x",
                "r",
                "r == {k} * {x}",
                "r := 0; var i := 0; while i < {x} invariant i <= {x} && r == {k} * i {{ r := r + {k}; i := i + 1; }}",
                "{x} >= 0",
            ),
            T(
                "x",
                "r",
                "2 * r == {x} * ({x} + 1)",
                "r := 0; var i := 0; while i < {x} invariant i <= {x} && 2 * r == i * (i + 1)"
                " {{ i := i + 1; r := r + i; }}",
                "{x} >= 0",
            ),
        ),
    ),
)

FAMILIES: dict[str, tuple[Rung, ...]] = {
    "linear": LINEAR,
    "inverse": INVERSE,
    "cases": CASES,
    "relation": RELATION,
    "bool": BOOLEAN,
    "divmod": DIVMOD,
    "two": TWO,
    "loop": LOOP,
}
