"""Methods with loops that verify, as (specification, answer). `$` stands for a small positive number."""

from __future__ import annotations

LOOPS: list[tuple[str, str]] = [
    (
        "method F(n: nat) returns (r: int)\n  ensures r == $ * n",
        "{\n  r := 0;\n  var i := 0;\n  while i < n\n    invariant 0 <= i <= n\n    invariant r == $ * i\n  {\n"
        "    i := i + 1;\n    r := r + $;\n  }\n}",
    ),
    (
        "method F(n: int) returns (r: int)\n  requires n >= 0\n  ensures r == n",
        "{\n  var i: int := n;\n  r := 0;\n  while i > 0\n    invariant i >= 0\n    invariant r + i == n\n"
        "    decreases i\n  {\n    i, r := i - 1, r + 1;\n  }\n}",
    ),
    (
        "method F(n: nat) returns (r: nat)\n  ensures r == n",
        "{\n  r := 0;\n  while r != n\n    invariant r <= n\n  {\n    r := r + 1;\n  }\n}",
    ),
    (
        "method F(x: nat, y: int) returns (q: int, r: int)\n  requires y > 0\n  ensures x == q * y + r\n"
        "  ensures 0 <= r < y",
        "{\n  q := 0;\n  r := x;\n  while r >= y\n    invariant x == q * y + r\n    invariant 0 <= r\n"
        "    decreases r\n  {\n    r := r - y;\n    q := q + 1;\n  }\n}",
    ),
    (
        "method F(x: int) returns (r: int)\n  ensures r % $ == x % $\n  ensures 0 <= r",
        "{\n  r := x;\n  while r < 0\n    invariant r % $ == x % $\n    decreases -r\n  {\n    r := r + $;\n  }\n}",
    ),
    (
        "method F(a: nat, b: nat) returns (r: int)\n  ensures r == a + b",
        "{\n  r := 0;\n  var i, j := a, b;\n  while i > 0 || j > 0\n    invariant i >= 0 && j >= 0\n"
        "    invariant r + i + j == a + b\n    decreases i + j\n  {\n"
        "    if i > 0 { i := i - 1; } else { j := j - 1; }\n    r := r + 1;\n  }\n}",
    ),
    (
        "method F(a: nat, b: nat) returns (r: int)\n  ensures r == 0",
        "{\n  var i: nat, j: nat := a, b;\n  while i > 0 || j > 0\n    decreases i, j\n  {\n"
        "    if j > 0 { j := j - 1; } else { i := i - 1; j := b; }\n  }\n  r := i + j;\n}",
    ),
    (
        "method F(n: nat, m: nat) returns (r: int)\n  ensures r == n + m",
        "{\n  r := 0;\n  var i := 0;\n  while i < n\n    invariant i <= n && r == i\n  {\n    i := i + 1;\n"
        "    r := r + 1;\n  }\n  i := 0;\n  while i < m\n    invariant 0 <= i <= m && r == n + i\n  {\n"
        "    r := r + 1;\n    i := i + 1;\n  }\n}",
    ),
    (
        "method F(n: nat) returns (r: int)\n  ensures r >= 0\n  ensures r == n || r == $",
        "{\n  r := 0;\n  while true\n    invariant 0 <= r <= n\n    decreases n - r\n  {\n"
        "    if r == n { return; }\n    if r == $ { return r; }\n    r := r + 1;\n  }\n}",
    ),
    (
        "method F(n: nat) returns (r: int)\n  requires n > 0\n  ensures r == 2 * n",
        "{\n  r := 0;\n  var i: nat := 0;\n  while i < n\n    invariant i <= n && r == 2 * i\n  {\n    var j := 0;\n"
        "    var s := r;\n    while j < 2\n      invariant 0 <= j <= 2 && r == s + j\n    {\n      r := r + 1;\n"
        "      j := j + 1;\n    }\n    i := i + 1;\n  }\n}",
    ),
    (
        "method F(x: int, y: int) returns (a: int, b: int)\n  ensures a == y && b == x",
        "{\n  a, b := x, y;\n  var k := 1;\n  while k > 0\n    invariant k == 1 || k == 0\n"
        "    invariant k == 1 ==> a == x && b == y\n    invariant k == 0 ==> a == y && b == x\n  {\n"
        "    a, b := b, a;\n    k := k - 1;\n  }\n}",
    ),
    (
        "method F(n: int) returns (r: int)\n  ensures n >= 0 ==> r == n * $\n  ensures n < 0 ==> r == -n",
        "{\n  r := 0;\n  if n < 0 {\n    return -n;\n  }\n  var i: int := 0;\n  while i <= n - 1\n"
        "    invariant 0 <= i <= n\n    invariant r == i * $\n  {\n    r := r + $;\n    i := i + 1;\n  }\n}",
    ),
    (
        "method F(n: nat) returns (r: int)\n  ensures 2 * r == n * (n + 1)",
        "{\n  r := 0;\n  var i := 0;\n  while i < n\n    invariant 0 <= i <= n\n    invariant 2 * r == i * (i + 1)\n"
        "  {\n    i := i + 1;\n    r := r + i;\n  }\n}",
    ),
    (
        "method F(n: nat) returns (b: bool)\n  ensures b <==> n % 2 == 0",
        "{\n  b := true;\n  var i: nat := 0;\n  while i < n\n    invariant i <= n\n"
        "    invariant b <==> i % 2 == 0\n  {\n    b := !b;\n    i := i + 1;\n  }\n}",
    ),
    (
        "method F(x: int, y: int) returns (m: int)\n  requires 0 <= x && 0 <= y\n  ensures m >= x && m >= y\n"
        "  ensures m == x || m == y",
        "{\n  m := 0;\n  while m < x || m < y\n    invariant 0 <= m\n    invariant m <= x || m <= y\n"
        "    decreases x + y - m\n  {\n    m := m + 1;\n  }\n}",
    ),
    (
        "method F(n: nat) returns (r: int)\n  ensures r == 10 / (n + 1)",
        "{\n  var d := 0;\n  while d < n\n    invariant 0 <= d <= n\n    invariant 10 / (d + 1) <= 10\n  {\n"
        "    assert 10 % (d + 1) <= d;\n    d := d + 1;\n  }\n  r := 10 / (d + 1);\n}",
    ),
    (
        "method F(n: int, go: bool) returns (r: int)\n  ensures go && n > 0 ==> r == n\n  ensures r >= 0",
        "{\n  r := 0;\n  while go && r < n\n    invariant 0 <= r && (r <= n || r == 0)\n  {\n    r := r + 1;\n  }\n}",
    ),
    (
        "method F(a: nat, b: nat) returns (g: int)\n  requires a > 0 && b > 0\n  ensures 0 < g && g <= a && g <= b",
        "{\n  var x, y := a, b;\n  while x != y\n    invariant 0 < x <= a && 0 < y <= b\n    decreases x + y\n  {\n"
        "    if x > y { x := x - y; } else { y := y - x; }\n  }\n  g := x;\n}",
    ),
    (
        "method F(x: int) returns (r: int)\n  requires x >= 0\n  ensures r * r <= x && x < (r + 1) * (r + 1)",
        "{\n  r := 0;\n  while (r + 1) * (r + 1) <= x\n    invariant 0 <= r && r * r <= x\n    decreases x - r\n  {\n"
        "    r := r + 1;\n  }\n}",
    ),
    (
        "method F(lo: int, hi: int) returns (m: int)\n  requires lo <= hi\n  ensures m == hi",
        "{\n  m := lo;\n  while m < hi\n    invariant lo <= m <= hi\n  {\n    var step := (hi - m + 1) / 2;\n"
        "    m := m + step;\n  }\n}",
    ),
]
