"""Runs a second of the Python sandbox, by backend: `python scripts/bench_python_sandbox.py [--runs 500] [--slots 2]`.

Run it on an idle machine; each program prints one line.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

from selfplay.sandbox.config import PYTHON_BACKENDS, PythonConfig
from selfplay.sandbox.python.pool import PythonSandbox
from selfplay.sandbox.python.result import Ending


def measure(backend: str, runs: int, slots: int) -> str:
    """One line: runs a second, median and 95th percentile of a run."""
    sandbox = PythonSandbox(PythonConfig(backend=backend, slots=slots))

    def one(i: int) -> float:
        started = time.perf_counter()
        result = sandbox.run(f"print({i} * 2)")
        if (result.ending, result.stdout) != (Ending.FINISHED, f"{i * 2}\n"):
            raise SystemExit(f"run {i} went wrong: {result}")
        return time.perf_counter() - started

    try:
        with ThreadPoolExecutor(slots) as pool:
            list(pool.map(one, range(2 * slots)))  # the slots are up
            started = time.perf_counter()
            seconds = list(pool.map(one, range(runs)))
            rate = runs / (time.perf_counter() - started)
    finally:
        sandbox.close()
    ordered = sorted(seconds)
    tail = ordered[int(0.95 * len(ordered))]
    return (
        f"{backend:12}{rate:8.1f} runs/s   median {1e3 * statistics.median(ordered):6.1f} ms   95% {1e3 * tail:6.1f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--slots", type=int, default=2)
    arguments = parser.parse_args()
    for backend in PYTHON_BACKENDS:
        if backend == "bubblewrap" and shutil.which("bwrap") is None:
            print("bubblewrap  bwrap is not installed")
            continue
        print(measure(backend, arguments.runs, arguments.slots), flush=True)


if __name__ == "__main__":
    main()
