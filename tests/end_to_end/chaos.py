"""Runs under fire: `python tests/end_to_end/chaos.py --faults 200 --seed 0 --out /tmp/chaos`.

A run is started, harmed at random moments (see faults.py), and started again with `resume=auto` until it has finished;
then the next one is. Every launch must end with exit code 0 or a named cause, and every finished run must have the
metrics, the pool and the weights of a run that nothing happened to, bit for bit. Prints a table and exits with 1 if one
of them did not. Needs root (a small file system is mounted for each run) and, for the clock, a C compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import faults
import torch
from launch import SHORT, Launch, metrics_of, nodes_of, remains, runs, stable, summary_of, weights_of
from rich.console import Console
from rich.table import Table

OVERRIDES = (*SHORT, "algo.steps=8", "cluster.watchdog.stall_s=30", "cluster.watchdog.startup_s=200")
DISK_MIB = 300
NAMED = {0, 1, 3, 4, 130, -int(signal.SIGKILL)}  # the last: the driver itself was killed, by us


@dataclass
class Tally:
    """What was done and what came of it."""

    injected: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    launches: int = 0
    finished: int = 0
    lost: list[str] = field(default_factory=list)  # what differed from the run that nothing happened to
    unnamed: list[str] = field(default_factory=list)  # launches that ended without a cause

    def note(self, out: Path, what: str) -> None:
        self.injected[what] += 1
        with out.open("a") as file:
            file.write(json.dumps({"fault": what, "at": time.time()}) + "\n")


class Chaos:
    def __init__(self, out: Path, cache: Path, seed: int, reference: Path) -> None:
        self.out, self.cache, self.reference = out, cache, reference
        self.rng, self.tally = random.Random(seed), Tally()
        self.clock = out / "clock"
        self.clocks = faults.build_clock(self.clock)

    def go(self, wanted: int, deadline: float) -> Tally:
        """Runs until so many faults were injected; the one under way is brought to its end."""
        number = 0
        while sum(self.tally.injected.values()) < wanted and time.monotonic() < deadline:
            number += 1
            folder = self.out / f"run-{number:03d}"
            with faults.small_disk(folder, DISK_MIB):
                self.one_run(folder, lambda: sum(self.tally.injected.values()) < wanted)
                self.compare(folder)
        return self.tally

    def one_run(self, folder: Path, more: Callable[[], bool]) -> None:
        """From its start to its end, through as many launches as it takes."""
        for _ in range(40):
            code = self.one_launch(folder, more)
            if code == 0:
                self.tally.finished += 1
                return
            if more() and runs(folder) and self.rng.random() < 0.7:
                what = self.rng.choice(("checkpoint", "checkpoint", "pool", "journal", "summary"))
                name, harm = self.rng.choice((("truncated", faults.truncate), ("flipped", faults.flip)))
                if faults.damage(runs(folder)[-1], what, harm, self.rng):
                    self.tally.note(self.out / "faults.jsonl", f"{what} {name}")
        self.tally.lost.append(f"{folder}: not finished after 40 launches")

    def one_launch(self, folder: Path, more: Callable[[], bool]) -> int:
        rng = self.rng
        skewed = self.clocks and rng.random() < 0.3
        self.clock.write_text("0\n")
        environment = faults.clock_environment(self.clock) if skewed else {}
        launch = Launch(folder, [*OVERRIDES, "resume=auto"], self.cache, environment)
        self.tally.launches += 1
        started = time.monotonic()
        if rng.random() < 0.8:  # most of the harm in the loop, the rest while the engine starts
            while launch.process.poll() is None and "engine up" not in launch.console():
                time.sleep(0.2)
        for _ in range(rng.randrange(3, 8)):
            time.sleep(rng.uniform(0.1, 3.0))
            if launch.process.poll() is not None or not more():
                break
            self.harm(launch, folder, skewed)
        code = launch.wait(420)
        self.judge(launch, folder, code, time.monotonic() - started)
        return code

    def harm(self, launch: Launch, folder: Path, skewed: bool) -> None:
        """One fault, drawn at random; half of them end the launch."""
        rng = self.rng
        found = runs(folder)
        kind = rng.choice(list(faults.KINDS))
        menu: dict[str, Callable[[], bool]] = {
            f"{kind} killed": lambda: faults.kill(launch, rng, kind),
            f"{kind} stopped for a while": lambda: faults.pause(launch, rng, kind),
            "no file descriptors": lambda: faults.no_descriptors(launch, rng),
            "disk full": lambda: faults.full_disk(folder, rng),
            "SIGTERM": lambda: faults.send(launch, signal.SIGTERM),
            "SIGINT": lambda: faults.send(launch, signal.SIGINT),
        }
        if found:
            menu["checkpoints read-only"] = lambda: faults.read_only_checkpoints(found[-1], rng)
        weights = {f"{kind} killed": 2.0, f"{kind} stopped for a while": 5.0, "SIGTERM": 0.5, "SIGINT": 0.5}
        if skewed:
            menu["clock skewed"] = lambda: faults.skew_clock(self.clock, rng)
            weights["clock skewed"] = 4.0
        names = list(menu)
        (name,) = rng.choices(names, [weights.get(one, 1.5) for one in names])
        if menu[name]():
            self.tally.note(self.out / "faults.jsonl", name)

    def judge(self, launch: Launch, folder: Path, code: int, seconds: float) -> None:
        """A launch that did not finish says why, and leaves no process."""
        lines = [line for line in launch.console().splitlines() if line.strip()]
        said = next((line for line in reversed(lines) if ":" in line and not line.startswith("continue with")), "")
        ending = f"{code}: {said[:150]}" if code else "0"
        self.tally.endings[str(code)] += 1
        print(f"{time.strftime('%T')} launch {self.tally.launches} ended after {seconds:.0f} s: {ending}", flush=True)
        named = code in NAMED and (code in (0, -int(signal.SIGKILL)) or bool(said))
        left = remains(runs(folder)[-1]) if runs(folder) else []
        if not named or "Traceback" in launch.console() or left:
            self.tally.unnamed.append(f"{launch.log}: {ending} {left}")

    def compare(self, folder: Path) -> None:
        """The finished run and the one that nothing happened to."""
        if not runs(folder):
            return
        run = runs(folder)[-1]
        ours, theirs = stable(metrics_of(run)), stable(metrics_of(self.reference))
        if ours != theirs:
            self.tally.lost.append(f"{run}: metrics of {len(ours)} steps differ")
        if nodes_of(run) != nodes_of(self.reference):
            self.tally.lost.append(f"{run}: the pool differs")
        mine, other = weights_of(run), weights_of(self.reference)
        if mine.keys() != other.keys() or not all(torch.equal(mine[key], other[key]) for key in mine):
            self.tally.lost.append(f"{run}: the weights differ")
        if summary_of(run)["status"] != "finished":
            self.tally.lost.append(f"{run}: not finished")


def show(tally: Tally) -> None:
    table = Table(box=None, pad_edge=False)
    for title in ("fault", "injected"):
        table.add_column(title)
    for name, count in sorted(tally.injected.items()):
        table.add_row(name, str(count))
    console = Console(soft_wrap=True)
    console.print(table)
    console.print(f"faults injected: {sum(tally.injected.values())}")
    console.print(f"launches: {tally.launches}, by exit code {dict(sorted(tally.endings.items()))}")
    console.print(
        f"runs brought to their end: {tally.finished}; data lost: {len(tally.lost)}; no cause: {len(tally.unnamed)}"
    )
    for line in (*tally.lost, *tally.unnamed):
        console.print(line)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=240.0, help="no new run is begun after this time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("chaos: mounting a small file system needs root", file=sys.stderr)
        return 2
    deadline = time.monotonic() + arguments.minutes * 60
    out = arguments.out.absolute()
    cache = out / "cache"
    whole = Launch(out / "reference", OVERRIDES, cache)
    if whole.wait(900) != 0:
        print(whole.console(), file=sys.stderr)
        return 2
    tally = Chaos(out, cache, arguments.seed, whole.run_dir).go(arguments.faults, deadline)
    show(tally)
    return 1 if tally.lost or tally.unnamed else 0


if __name__ == "__main__":
    sys.exit(main())
