"""What a run of model-written code came to, and the interface of whatever runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class SandboxError(RuntimeError):
    """The sandbox itself failed or is weaker than demanded; says nothing about the code."""


class Ending(StrEnum):
    """How a run ended, by the kernel's word."""

    FINISHED = "finished"  # exit code 0
    FAILED = "failed"  # another exit code: an exception, as a rule
    KILLED = "killed"  # by a signal: out of CPU time, a crash of the interpreter
    TIMEOUT = "timeout"  # the wall clock


@dataclass(frozen=True)
class RunResult:
    """A run's output and end. `stdout` and `stderr` are cut at the sandbox's limit; the code may write there what it
    likes, so they are claims, while `ending` is not."""

    ending: Ending
    exit_code: int  # of KILLED, the signal
    stdout: str
    stderr: str
    wall_s: float
    cpu_s: float = 0.0
    peak_mib: float = 0.0
    layers: Mapping[str, str] = field(default_factory=dict)  # name -> "" where it was on, or why not


class PythonRunner(Protocol):
    """A sandbox for Python programs. Thread-safe; a run never sees another one."""

    name: str

    def run(self, code: str, stdin: str = "", wall_s: float | None = None) -> RunResult:
        """Run a program. Raises SandboxError if it could not be run at all."""
        ...

    def layers(self) -> dict[str, str]:
        """The layers of protection as a run of the self-test found them: name -> "" or why it is off."""
        ...

    def close(self) -> None:
        """End the sandbox's processes."""
        ...
