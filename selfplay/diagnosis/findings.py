"""What a check finds, and the loop over all checks."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from selfplay.config.errors import one_line

if TYPE_CHECKING:
    from selfplay.config.schema import Config

SLOW_S = 2.0  # a check that takes longer is named on the terminal
GIB, MIB = 2**30, 2**20


class State(StrEnum):
    """OK: nothing to do. WARNING: it may run. PROBLEM: it cannot run here."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """One fact about the machine. `fix` is a command or a setting; a warning or a problem has one."""

    topic: str
    state: State
    what: str
    fix: str = ""

    def __post_init__(self) -> None:
        if (self.state is State.OK) == bool(self.fix):
            raise ValueError(f"{self.topic}: {self.state} with fix {self.fix!r}; warnings and problems have one")


def ok(topic: str, what: str) -> Finding:
    return Finding(topic, State.OK, one_line(what))


def warning(topic: str, what: str, fix: str) -> Finding:
    return Finding(topic, State.WARNING, one_line(what), one_line(fix))


def problem(topic: str, what: str, fix: str) -> Finding:
    return Finding(topic, State.PROBLEM, one_line(what), one_line(fix))


@dataclass(frozen=True)
class Check:
    """A check by the name that is shown when it fails or is slow."""

    topic: str
    name: str
    find: Callable[[Config], list[Finding]]


def run_checks(checks: Sequence[Check], config: Config) -> list[Finding]:
    """All findings, in the order of `checks`. A check that raises becomes a warning."""
    found: list[Finding] = []
    for check in checks:
        with naming_slow(check.name):
            try:
                found += check.find(config)
            except Exception as error:  # whatever it is: the other checks still have something to say
                what = f"{check.name} could not be checked: {type(error).__name__}: {error}"
                found.append(warning(check.topic, what, "nothing is known to be wrong: try the run"))
    return found


@contextmanager
def naming_slow(name: str) -> Iterator[None]:
    """On a terminal, say what is being waited for once it takes longer than `SLOW_S`."""
    timer = threading.Timer(SLOW_S, lambda: print(f"checking {name} ...", file=sys.stderr, flush=True))
    timer.daemon = True
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def needs_engine(config: Config) -> bool:
    """Whether a run starts Ray, FSDP ranks and vLLM: a search of BenchEvolver with endpoints alone does without."""
    return bool(getattr(config.algo, "needs_policy", True))
