"""Tests a second of the judge, and of the same programs as plain subprocesses: `python scripts/bench_judge.py`.

`--codecontests FILE` takes the references of a file instead of the few programs below. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from selfplay.benchmarks import livecodebench
from selfplay.sandbox.config import JudgeConfig
from selfplay.sandbox.judge.cases import StdioTest
from selfplay.sandbox.judge.compare import same_output
from selfplay.sandbox.judge.judge import Job, Judge

PROGRAMS = {
    "sum": "print(sum(map(int, input().split())))",
    "sorted": "print(*sorted(map(int, input().split())))",
    "primes": "n = max(map(int, input().split()))\n"
    "print(sum(all(p % d for d in range(2, int(p**0.5) + 1)) for p in range(2, n)))",
    "words": "from collections import Counter\nprint(Counter(input().split()).most_common(1)[0][0])",
}
INPUTS = [f"{i} {i * i % 97} {i * 31 % 89} 5\n" for i in range(1, 16)]


def own_jobs() -> list[Job]:
    """The programs above, their tests made by running them."""
    jobs = []
    for program in PROGRAMS.values():
        tests = tuple(StdioTest(given, plain(program, given)) for given in INPUTS)
        jobs.append(Job(program, tests))
    return jobs


def read_jobs(path: Path, programs: int) -> list[Job]:
    """References of a file that read standard input, with ten tests each at most."""
    tasks = [task for task in livecodebench.read(path) if not task.function]
    return [Job(task.reference, task.tests[:10], task.unordered) for task in tasks[:programs]]


def plain(program: str, given: str) -> str:
    """What a program prints in an interpreter of its own, without any protection."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=20, check=False).stdout


def by_subprocess(jobs: Sequence[Job], slots: int) -> int:
    """How many tests pass."""

    def one(pair: tuple[Job, StdioTest]) -> bool:
        job, test = pair
        out = plain(job.program, test.stdin)
        return same_output(out, test.stdout, unordered=job.unordered, comparison="strict")

    pairs = [(job, test) for job in jobs for test in job.tests if isinstance(test, StdioTest)]
    with ThreadPoolExecutor(slots) as pool:
        return sum(pool.map(one, pairs))


def report(name: str, jobs: Sequence[Job], work: Callable[[], int]) -> float:
    """Print and return tests a second."""
    count = sum(len(job.tests) for job in jobs)
    started = time.perf_counter()
    passed = work()
    rate = count / (time.perf_counter() - started)
    print(f"{name:12}{rate:8.1f} tests/s   {passed} of {count} pass", flush=True)
    return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codecontests", type=Path)
    parser.add_argument("--programs", type=int, default=40, help="of the file")
    parser.add_argument("--repeat", type=int, default=5, help="of the programs above")
    parser.add_argument("--slots", type=int, default=2)
    arguments = parser.parse_args()
    path = arguments.codecontests
    jobs = read_jobs(path, arguments.programs) if path else own_jobs() * arguments.repeat
    judge = Judge(JudgeConfig(slots=arguments.slots))
    try:
        judge.judge_all(jobs[:1])  # the slots are up

        def judged() -> int:
            verdicts = judge.judge_all(jobs, stop=False)
            return sum(result.outcome == "OK" for verdict in verdicts for result in verdict.results)

        ours = report("judge", jobs, judged)
    finally:
        judge.close()
    theirs = report("subprocess", jobs, lambda: by_subprocess(jobs, arguments.slots))
    print(f"judge / subprocess: {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
