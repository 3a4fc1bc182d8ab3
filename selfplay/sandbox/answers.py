"""Which numerical answers are equal: math-verify in processes of its own, each question with a time limit.

A model can write an expression that keeps sympy busy for ever. So a worker that does not answer within its seconds is
ended and replaced, and the question counts as "no number" or "not equal". The seconds are the worker's own, so that a
busy machine makes no right answer wrong.
"""

from __future__ import annotations

import json
import math
import os
import queue
import re
import select
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfplay.sandbox.python.result import SandboxError

START_S = 15.0  # of the imports
PATIENCE = 20  # times the limit is waited for, where the worker does not get to run
LONGEST = 300  # characters of an answer: nothing longer is taken for a number
REMEMBERED = 100_000
_PLAIN = re.compile(r"[+-]?\d{1,3}(,\d{3})+|[+-]?\d{1,100}")


def plain_integer(text: str) -> int | None:
    """The integer that a text plainly is; most answers are, and need no library."""
    return int(text.replace(",", "")) if _PLAIN.fullmatch(text) else None


def cpu_s(pid: int) -> float:
    """Seconds of a processor that a process has used; infinite for one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return math.inf
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class _Worker:
    """One process, started when it is first asked."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, question: dict[str, Any], limit_s: float) -> dict[str, Any] | None:
        """The answer, or None if there was none in time: the process is then gone.

        Raises:
            SandboxError: the process cannot be started.
        """
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            line = self._line(process, limit_s)
        except OSError:
            line = b""
        if not line:
            self.close()
            return None
        return dict(json.loads(line))

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "selfplay.sandbox.answers_worker"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, start_new_session=True, **pipes)  # type: ignore[call-overload]
        assert self._process is not None
        if not self._line(self._process, START_S):
            self.close()
            raise SandboxError("math-verify does not start: is it installed?")
        return self._process

    @staticmethod
    def _line(process: subprocess.Popen[bytes], limit_s: float) -> bytes:
        """The next line, or nothing at the end of time or of the process. An answer is one short write."""
        assert process.stdout is not None
        spent, ends = cpu_s(process.pid), time.monotonic() + limit_s * PATIENCE
        while time.monotonic() < ends and cpu_s(process.pid) - spent < limit_s:
            ready, _, _ = select.select([process.stdout], [], [], limit_s / 4)
            if ready:
                return process.stdout.readline()
        return b""


class AnswerJudge:
    """Validity and classes of answers. Thread-safe; verdicts are remembered."""

    def __init__(self, workers: int = 1, limit_s: float = 3.0) -> None:
        self.limit_s = limit_s
        self.timeouts = 0
        self._all = [_Worker() for _ in range(workers)]
        self._free: queue.LifoQueue[_Worker] = queue.LifoQueue()
        for worker in self._all:
            self._free.put(worker)
        self._known: OrderedDict[tuple[str, ...], bool] = OrderedDict()
        self._lock = threading.Lock()

    def is_number(self, text: str) -> bool:
        """Whether an answer is one finite real number."""
        text = text.strip()
        if not text or len(text) > LONGEST:
            return False
        return plain_integer(text) is not None or self._ask(("parse", text), {"parse": text}, "number")

    def equal(self, first: str, second: str) -> bool:
        """Whether two valid answers are the same number."""
        first, second = sorted((first.strip(), second.strip()))
        if first == second:
            return True
        whole = plain_integer(first), plain_integer(second)
        if None not in whole:
            return whole[0] == whole[1]
        return self._ask(("equal", first, second), {"equal": [first, second]}, "equal")

    def same(self, gold: str, answer: str) -> bool:
        """Whether an answer of any kind (a number, an expression, an interval, a set, a word) means what `gold` does.

        Not symmetric: what the gold answer is decides how the other one is read.
        """
        return self._ask(("same", gold, answer), {"same": [gold, answer]}, "same")

    def classes(self, answers: Sequence[str | None]) -> list[str | None]:
        """For every answer the one that stands for all equal to it; None for an invalid or missing one.

        The representative is the first of its class in the order of the texts, so the order of answers does not matter.
        """
        representatives: list[str] = []
        names: dict[str, str] = {}
        for text in sorted({answer.strip() for answer in answers if answer is not None}):
            if self.is_number(text):
                names[text] = next((r for r in representatives if self.equal(r, text)), text)
                if names[text] == text:
                    representatives.append(text)
        return [None if answer is None else names.get(answer.strip()) for answer in answers]

    def close(self) -> None:
        """End the workers; a later question starts them again."""
        for worker in self._all:
            worker.close()

    def _ask(self, key: tuple[str, ...], question: dict[str, Any], field: str) -> bool:
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        worker = self._free.get()
        try:
            answer = worker.ask(question, self.limit_s)
        finally:
            self._free.put(worker)
        verdict = bool(answer and answer.get(field))
        with self._lock:
            self.timeouts += answer is None
            self._known[key] = verdict
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return verdict
