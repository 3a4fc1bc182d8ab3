"""Measure the whole stack on this machine: `python scripts/bench.py [--only trainer,drivers] [--json FILE]`.

    trainer   our session against bare `verl.trainer.main_ppo` on the same work, launches in turn
    drivers   what each algorithm's driver adds to a step, from a short run of each
    scaling   one and two ranks, each with its server, the work of a rank held fixed
    startup   seconds from the start of the process to each milestone
    memory    peak memory by kind of process

Prints one table. It wants an otherwise idle machine: whatever else computes is in the seconds, and hardly in the
processor seconds. The short runs warm their models up a little only: they show what steps cost, not what is learned.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from bench_runs import SHORT, Run, milestones, overhead, run
from bench_trainers import Measured, Shape, measure
from rich.console import Console
from rich.table import Table

TARGET = 0.95  # of bare verl's tokens per second
LAUNCHES = 2


@dataclass(frozen=True)
class Row:
    part: str
    what: str
    value: str
    note: str = ""


class Bench:
    """The parts. `raw` collects what they measured, for `--json`."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder, self.say = folder, say
        self.raw: dict[str, Any] = {}
        self.short_run = lru_cache(self._short_run)  # several parts read the same run

    def _short_run(self, algo: str) -> Run:
        self.say(f"a short run of {algo}")
        return run(algo, self.folder / algo)

    def _launch(self, name: str, kind: str, shape: Shape) -> Measured:
        self.say(f"{name}: {kind}, {shape.ranks} rank(s)")
        result = measure(kind, shape, self.folder / name)
        self.raw.setdefault("launches", []).append({"name": name, "shape": asdict(shape), **asdict(result)})
        return result

    def trainer(self) -> list[Row]:
        shape, found = Shape(), dict[str, list[Measured]]()
        for number in range(LAUNCHES):
            for kind in ("ours", "equal"):
                found.setdefault(kind, []).append(self._launch(f"trainer-{kind}-{number}", kind, shape))
        found["stock"] = [self._launch("trainer-stock", "stock", shape)]
        names = {"ours": "our session", "equal": "bare verl, as fast as we can set it", "stock": "bare verl, stock"}
        rows = [Row("trainer", names[kind], *speeds(launches)) for kind, launches in found.items()]
        for kind in ("equal", "stock"):
            ratio = typical(found[kind]) / typical(found["ours"])
            pairs = [typical([b]) / typical([a]) for a, b in zip(found["ours"], found[kind], strict=False)]
            used = [median(s for launch in found[k] for s in launch.cpu_s) for k in ("ours", kind)]
            note = "launch by launch " + ", ".join(f"{pair:.2f}" for pair in pairs)
            note += f"; by processor seconds {used[1] / used[0]:.2f}"
            note += f"; target {TARGET}" if kind == "equal" else ""
            rows.append(Row("trainer", f"ours / {names[kind]}", f"{ratio:.2f}", note))
        return rows

    def drivers(self) -> list[Row]:
        rows = []
        for algo in SHORT:
            result = self.short_run(algo)
            found = overhead(result.stamps, result.metrics)
            self.raw.setdefault("drivers", {})[algo] = asdict(found)
            outside = found.glue + found.saving + found.driver
            note = f"engine {found.glue:.3f}, saving {found.saving:.3f}, driver {found.driver:.3f}"
            value = f"{outside:.2f} of {found.wall:.2f} s"
            rows.append(
                Row("drivers", f"{algo}: a step, outside the engine's phases", value, f"{note}; {found.steps} steps")
            )
        return rows

    def scaling(self) -> list[Row]:
        rows, found = [], []
        for ranks in (1, 2):
            shape = Shape(steps=12, ranks=ranks, threads=1)
            found.append(self._launch(f"scaling-{ranks}", "ours", shape))
            rows.append(Row("scaling", f"{ranks} rank(s), {ranks} server(s)", *speeds(found[-1:])))
        efficiency = typical(found[:1]) / typical(found[1:])
        rows.append(
            Row("scaling", "efficiency of two", f"{efficiency:.2f}", f"{os.cpu_count()} cores for all processes")
        )
        return rows

    def startup(self) -> list[Row]:
        result = self.short_run("ancora")
        found = self.raw["startup"] = milestones(result.stamps)
        return [
            Row("startup", label, f"{seconds:.1f} s") for label, seconds in sorted(found.items(), key=lambda i: i[1])
        ]

    def memory(self) -> list[Row]:
        memory = self.short_run("ancora").memory
        self.raw["memory"] = asdict(memory)
        kinds = sorted(memory.pss, key=lambda kind: -memory.pss[kind])
        rows = [
            Row(
                "memory",
                f"{kind} ({memory.processes[kind]})",
                f"{memory.pss[kind]:.0f} MiB",
                f"resident {memory.rss[kind]:.0f} MiB",
            )
            for kind in kinds
        ]
        return [
            *rows,
            Row("memory", "all at one moment", f"{memory.total_pss:.0f} MiB", "proportional (PSS), as above"),
        ]


PARTS = ("trainer", "drivers", "scaling", "startup", "memory")


def typical(launches: Sequence[Measured]) -> float:
    """Median seconds of a step over all launches."""
    return median(seconds for launch in launches for seconds in launch.step_s)


def speeds(launches: Sequence[Measured]) -> tuple[str, str]:
    """Tokens per second by the median step, and the spread of the steps."""
    seconds = [s for launch in launches for s in launch.step_s]
    low, middle, high = quantiles(seconds, n=4)
    used = median(s for launch in launches for s in launch.cpu_s)
    note = f"{1 / middle:.3f} steps/s; step {middle:.2f} s, quartiles {low:.2f} to {high:.2f}, {len(seconds)} steps"
    note += f"; {used:.2f} processor seconds a step"
    return f"{launches[0].tokens[0] / middle:.0f} tokens/s", note


def chosen(text: str) -> list[str]:
    """The parts named in `--only`, in their own order. Raises argparse.ArgumentTypeError for an unknown one."""
    wanted = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in PARTS]
    if unknown or not wanted:
        raise argparse.ArgumentTypeError(f"{text!r}: the parts are {', '.join(PARTS)}")
    return [part for part in PARTS if part in wanted]


def table_of(rows: Sequence[Row]) -> Table:
    table = Table(title=f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    for column in ("part", "what", "measured", ""):
        table.add_column(column)
    for index, row in enumerate(rows):
        if index and row.part != rows[index - 1].part:
            table.add_section()
        table.add_row(row.part, row.what, row.value, row.note)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=chosen, default=list(PARTS), metavar="PARTS", help="parts, with commas between")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured, every step of it")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep logs and run directories there")
    arguments = parser.parse_args()
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="selfplay-bench-") as scratch:
        bench = Bench(arguments.keep or Path(scratch), lambda text: console.print(text, style="dim"))
        rows = [row for part in arguments.only for row in getattr(bench, part)()]
    Console().print(table_of(rows))
    if arguments.json:
        found = {"rows": [asdict(row) for row in rows], **bench.raw}
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
