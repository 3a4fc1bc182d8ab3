"""Programs on which a development version of the verifier and Dafny disagreed, with the verdict they now get."""

from __future__ import annotations

from dafny_programs import Program

from selfplay.sandbox.base import Verdict

_NATS = "method F(n: nat, k: nat, m: int) returns (r: int, q: nat)\n  ensures r == 0\n  ensures q == 1"


def _nats(body: str) -> Program:
    return Program(_NATS, f"{{ {body} r := 0; q := 1; }}")


REGRESSIONS: list[tuple[Program, Verdict]] = [
    # Dafny 2.3 infers nat for these locals and demands nats of what is computed from them.
    (_nats("var i := n; i := i - 1;"), Verdict.REFUTED),
    (_nats("var i := 0; i := n; i := i - 7;"), Verdict.REFUTED),
    (_nats("var i := n; var j := i; j := j - 1;"), Verdict.REFUTED),
    (_nats("var i, j := n, m; i, j := j, i;"), Verdict.REFUTED),
    (_nats("var i := n; r := (i + 1) - 100;"), Verdict.REFUTED),
    (_nats("var i := n; var j := 0; r := i - j - 5;"), Verdict.REFUTED),
    (_nats("r := -n;"), Verdict.REFUTED),
    # It does not for these.
    (_nats("r := n - k;"), Verdict.VERIFIED),
    (_nats("var i := n; r := i - k - 30;"), Verdict.VERIFIED),
    (_nats("var i := n + 1; i := -3;"), Verdict.VERIFIED),
    (_nats("var i := n / 2; i := i - 9;"), Verdict.VERIFIED),
    (_nats("var i := k; while i < n { i := i + 1; } assert i >= 0;"), Verdict.VERIFIED),
    # Dafny reads `a < b, c > (d)` as a call with type arguments.
    (Program(_NATS, "{ var a, b := n < k, m > (n); r := 0; q := 1; }"), Verdict.MALFORMED),
    (Program(_NATS, "{ var a, b := (n < k), m > (n); r := 0; q := 1; }"), Verdict.VERIFIED),
]
