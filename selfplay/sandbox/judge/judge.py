"""The judge: many programs and their tests at once over the slots of the Python sandbox."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

from selfplay.sandbox.config import JudgeConfig
from selfplay.sandbox.judge import values
from selfplay.sandbox.judge.cases import AssertTest, CallTest, StdioTest, Test
from selfplay.sandbox.judge.compare import same_output, same_value
from selfplay.sandbox.judge.harness import NEEDS_A_CALL, call_program, replay_program, written
from selfplay.sandbox.python.pool import PythonSandbox
from selfplay.sandbox.python.result import Ending, RunResult

MAX_CALLS = 300  # of the function, in one test with assertions


class Outcome(StrEnum):
    """Of one test."""

    OK = "OK"
    WRONG = "WA"
    TIMEOUT = "TLE"
    ERROR = "RE"
    SKIPPED = "SKIP"  # an earlier test failed


@dataclass(frozen=True)
class TestResult:
    """`detail` is for people and repairs: what was printed or returned, or the error."""

    outcome: Outcome
    detail: str = ""
    cpu_s: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """Of one program on all its tests."""

    results: tuple[TestResult, ...]

    @property
    def passed(self) -> bool:
        """All tests, of which there must be one."""
        return bool(self.results) and all(result.outcome is Outcome.OK for result in self.results)

    @property
    def first_failure(self) -> int | None:
        """The place of the first test that failed."""
        bad = (i for i, r in enumerate(self.results) if r.outcome not in (Outcome.OK, Outcome.SKIPPED))
        return next(bad, None)

    @property
    def outcome(self) -> Outcome:
        """OK, or how the first failing test ended."""
        place = self.first_failure
        return Outcome.OK if place is None else self.results[place].outcome


class JudgeError(ValueError):
    """A test itself is broken: whatever a program does, it cannot be judged by it."""


@dataclass(frozen=True)
class Job:
    """A program and its tests; `unordered`: the task accepts its answer's lines or items in any order."""

    program: str
    tests: Sequence[Test]
    unordered: bool = False


class Judge:
    """Thread-safe. Programs run in the sandbox's slots, so `judge_all` uses all of them and `judge` what is free."""

    def __init__(self, config: JudgeConfig) -> None:
        self.config = config
        self.sandbox = PythonSandbox(config)

    def judge(self, program: str, tests: Sequence[Test], *, unordered: bool = False, stop: bool = True) -> Verdict:
        """One program on its tests; with `stop`, none is begun after one has failed."""
        return self.judge_all([Job(program, tests, unordered)], stop=stop)[0]

    def judge_all(self, jobs: Sequence[Job], *, stop: bool = True) -> list[Verdict]:
        """Every program on its own tests, as many runs at once as there are slots. Raises JudgeError."""
        failed = [threading.Event() for _ in jobs]

        def one(place: tuple[int, int]) -> TestResult:
            number, test = place
            if stop and failed[number].is_set():
                return TestResult(Outcome.SKIPPED)
            result = self._test(jobs[number], jobs[number].tests[test])
            if result.outcome is not Outcome.OK:
                failed[number].set()
            return result

        places = [(number, test) for number, job in enumerate(jobs) for test in range(len(job.tests))]
        with ThreadPoolExecutor(self.config.slots) as pool:
            results = iter(list(pool.map(one, places)))
        return [Verdict(tuple(next(results) for _ in job.tests)) for job in jobs]

    def output(self, program: str, stdin: str) -> RunResult:
        """What a program does with an input, within the judge's limits."""
        return self._run(program, stdin)

    def outputs(self, program: str, inputs: Sequence[str]) -> list[RunResult]:
        """What a program does with each of many inputs."""
        with ThreadPoolExecutor(self.config.slots) as pool:
            return list(pool.map(lambda given: self._run(program, given), inputs))

    def close(self) -> None:
        self.sandbox.close()

    # ---------------------------------------------------------------- one test

    def _test(self, job: Job, test: Test) -> TestResult:
        match test:
            case StdioTest():
                return self._stdio(job, test)
            case CallTest():
                return self._call(job, test)
            case AssertTest():
                return self._assertions(job, test)

    def _stdio(self, job: Job, test: StdioTest) -> TestResult:
        run = self._run(job.program, test.stdin)
        if bad := failure(run, self.config.wall_s):
            return bad
        right = same_output(run.stdout, test.stdout, unordered=job.unordered, comparison=self.config.compare)
        return _decided(right, run.stdout, run.cpu_s)

    def _call(self, job: Job, test: CallTest) -> TestResult:
        value = self._value(job.program, test.function, test.arguments, {})
        if isinstance(value, TestResult):
            return value
        try:
            got = values.loads(value, arrays=False)
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:  # a forged one
            return TestResult(Outcome.ERROR, f"no value: {type(error).__name__}")
        right = same_value(got, test.expected, unordered=job.unordered, comparison=self.config.compare)
        return _decided(right, repr(got), 0.0)

    def _assertions(self, job: Job, test: AssertTest) -> TestResult:
        known: list[str] = []
        while len(known) <= MAX_CALLS:
            replay = replay_program(test.setup, test.function, test.source, known, test.target)
            run = self._run(replay, "")
            if run.ending is Ending.FINISHED:
                return TestResult(Outcome.OK)
            if run.ending is Ending.FAILED and run.exit_code == NEEDS_A_CALL:
                asked = written(run.stdout)
                if asked is None:
                    raise JudgeError("a test's call cannot be read")
                value = self._value(job.program, test.function, *values.loads(asked))
                if isinstance(value, TestResult):
                    return value
                known.append(value)
            elif not known:
                raise JudgeError(f"a test fails before it calls {test.function}: {_last_line(run.stderr)}")
            elif "AssertionError" in _last_line(run.stderr):
                return TestResult(Outcome.WRONG, f"{test.function} returned {known[-1][:300]}")
            else:
                return failure(run, self.config.wall_s) or TestResult(Outcome.ERROR)
        return TestResult(Outcome.ERROR, f"more than {MAX_CALLS} calls")

    def _value(
        self, program: str, function: str, arguments: Sequence[object], named: dict[str, object]
    ) -> str | TestResult:
        """What the function returns, as JSON, or how that failed."""
        run = self._run(call_program(program, function, arguments, named), "")
        if bad := failure(run, self.config.wall_s):
            return bad
        value = written(run.stdout)
        return TestResult(Outcome.ERROR, "it returned no value") if value is None else value

    def _run(self, program: str, stdin: str) -> RunResult:
        # The limit counts the program's own seconds, so that a busy machine fails nobody; the wall is further away.
        return self.sandbox.run(program, stdin, wall_s=2 * self.config.wall_s + 2)


def failure(run: RunResult, limit_s: float) -> TestResult | None:
    """How a run failed, if it did; `limit_s` are the seconds it may compute."""
    if run.ending is Ending.FINISHED:
        return None
    if run.ending is Ending.TIMEOUT or run.cpu_s >= limit_s:  # the kernel kills at the limit
        return TestResult(Outcome.TIMEOUT, cpu_s=run.cpu_s)
    detail = f"signal {run.exit_code}" if run.ending is Ending.KILLED else _last_line(run.stderr)
    return TestResult(Outcome.ERROR, detail, run.cpu_s)


def _decided(right: bool, got: str, cpu_s: float) -> TestResult:
    return TestResult(Outcome.OK if right else Outcome.WRONG, "" if right else got[:300], cpu_s)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:300] if lines else ""
