"""A prover's process: its own group, a wall clock, and an end to those that only wait."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

STALL_S = 8.0  # a process group that used no CPU for so long is stuck: mono's runtime does so at times
_USED = 0.02  # seconds of CPU that count as progress


@dataclass(frozen=True)
class Finished:
    """A process that ended by itself. A negative exit code is the signal that ended it."""

    exit_code: int
    stdout: str
    stderr: str


def run_process(command: Sequence[str], folder: str | None, time_limit_s: float) -> Finished | None:
    """Run a command in `folder`; None if it had to be killed, with all its children.

    Output that is no UTF-8 is replaced, and line ends are the system's own.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        output = _wait(process, time.monotonic() + time_limit_s)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if output is None:
        return None
    out, err = (part.decode(errors="replace").replace("\r\n", "\n") for part in output)
    return Finished(process.returncode, out, err)


def _wait(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes] | None:
    activity = Activity(process.pid)
    while (now := time.monotonic()) < deadline:
        try:
            return process.communicate(timeout=min(0.5, deadline - now))
        except subprocess.TimeoutExpired:
            if activity.stuck():
                return None
    return None


class Activity:
    """Whether a process and its descendants still do something."""

    def __init__(self, pid: int) -> None:
        self.pid, self._used, self._since = pid, 0.0, time.monotonic()

    def stuck(self) -> bool:
        """No CPU used for `STALL_S` seconds, as far as the calls of this method show."""
        seconds = _cpu_of(self.pid)
        if seconds > self._used + _USED:
            self._used, self._since = seconds, time.monotonic()
        return time.monotonic() - self._since > STALL_S


def _cpu_of(pid: int) -> float:
    """CPU seconds of a process and its living descendants."""
    total = 0.0
    try:
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            times = process.cpu_times()
            total += times.user + times.system
    except psutil.Error:
        pass  # one ended in between: the rest counts next time
    return total
