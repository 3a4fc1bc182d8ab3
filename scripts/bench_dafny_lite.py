"""How many programs `dafny_lite` judges a second: one-line methods and loops, with 1 and 2 processes, no cache.

    python scripts/bench_dafny_lite.py [seconds per measurement, default 5]

"new spec" checks a specification that was not seen before as well as one answer to it; "same spec" judges another
answer to a known one, as the K attempts on one proposal do. Half of the answers are wrong. CPU ms is what one check
costs a process; on a machine with other work it is the steadier figure.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from selfplay.sandbox.dafny_lite import DafnyLite

Question = tuple[str, str]

LOOP = """{{
  r := 0;
  var i := 0;
  while i < n
    invariant 0 <= i <= n
    invariant r == {step} * i
  {{
    i := i + 1;
    r := r + {taken};
  }}
}}"""


def one_line(index: int, new_spec: bool) -> Question:
    name = f"F{index}" if new_spec else "F"
    spec = f"method {name}(x: int, y: int) returns (r: int)\n  ensures r >= x && r >= y\n  ensures r == x || r == y"
    return spec, f"{{ r := if x {'>' if index % 2 else '<'} y then x else y; /* {index} */ }}"


def with_loop(index: int, new_spec: bool) -> Question:
    step = index % 1000 + 2 if new_spec else 2
    spec = f"method F{index if new_spec else ''}(n: nat) returns (r: int)\n  ensures r == {step} * n"
    return spec, LOOP.format(step=step, taken=step + index % 2) + f" // {index}"


KINDS: dict[str, Callable[[int], Question]] = {
    "one line, same spec": lambda index: one_line(index, False),
    "one line, new spec": lambda index: one_line(index, True),
    "loop, same spec": lambda index: with_loop(index, False),
    "loop, new spec": lambda index: with_loop(index, True),
}


def measure(kind: str, seconds: float) -> tuple[int, float, float]:
    """Checks done in `seconds`, the wall time and the CPU time they took."""
    prover, question = DafnyLite(), KINDS[kind]
    for index in range(4):
        prover.verify(*question(index))
    wall, cpu, done = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - wall < seconds:
        expected = bool(done % 2)
        if prover.verify(*question(done + 4)).verified is (expected if kind.startswith("loop") else not expected):
            raise SystemExit(f"{kind}: a wrong verdict for {question(done + 4)}")
        done += 1
    return done, time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    table = Table("program", "processes", "checks/s", "CPU ms/check")
    for kind in KINDS:
        for processes in (1, 2):
            with multiprocessing.get_context("spawn").Pool(processes) as pool:
                results = pool.starmap(measure, [(kind, seconds)] * processes, chunksize=1)
            rate = sum(done / wall for done, wall, _ in results)
            cpu_ms = 1000 * sum(cpu for _, _, cpu in results) / sum(done for done, _, _ in results)
            table.add_row(kind, str(processes), f"{rate:.0f}", f"{cpu_ms:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
