"""What the run is doing, since when, and when it last got anywhere: written by the driver, read by the watchdog and the
console."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Pulse:
    """The state of a run at one moment.

    `phase` is the innermost open phase ("" outside any) and `phase_s` the seconds since it began; `detail`, `done` and
    `total` are the last beat's; `silent_s` is the time since the last progress; `stall_s` the limit set by the
    innermost phase that sets one; `count` grows with every progress.
    """

    phase: str
    phase_s: float
    detail: str
    done: int | None
    total: int | None
    silent_s: float
    stall_s: float | None
    count: int

    def describe(self) -> str:
        """One phrase for a person, e.g. `phase "generate" (sessions, 3 of 8)`."""
        where = f'phase "{self.phase}"' if self.phase else "no phase"
        amount = "" if self.done is None else f"{self.done}" if self.total is None else f"{self.done} of {self.total}"
        last = ", ".join(part for part in (self.detail, amount) if part)
        return f"{where} ({last})" if last else where


class _Phase:
    """An open phase: identity matters, since the same name may be open twice."""

    def __init__(self, name: str, stall_s: float | None, began: float) -> None:
        self.name, self.stall_s, self.began, self.counted_to = name, stall_s, began, began


class Heartbeat:
    """Thread-safe record of phases and progress. `listener`, if given, is called with each new `Pulse`, in the thread
    that caused it."""

    def __init__(self, listener: Callable[[Pulse], None] | None = None) -> None:
        self._listener = listener
        self._lock = threading.Lock()
        self._phases: list[_Phase] = []
        self._seconds: dict[str, float] = {}
        self._detail, self._done, self._total = "", None, None  # type: tuple[str, int | None, int | None]
        self._progress_at = time.monotonic()
        self._count = 0

    @contextmanager
    def phase(self, name: str, stall_s: float | None = None) -> Iterator[None]:
        """Open a phase for the body of the `with`; phases nest, and entering or leaving one is progress.

        `stall_s` is the phase's own limit for the watchdog, in seconds; without it the enclosing phase's or the
        watchdog's holds.
        """
        phase = _Phase(name, stall_s, time.monotonic())
        with self._lock:
            self._phases.append(phase)
            self._progress("", None, None)
        self._tell()
        try:
            yield
        finally:
            with self._lock:
                self._account(phase, time.monotonic())
                self._phases.remove(phase)
                self._progress("", None, None)
            self._tell()

    def beat(self, detail: str = "", done: int | None = None, total: int | None = None) -> None:
        """Report progress. With `done`, repeating the last beat is no progress: a loop that only waits may report as
        often as it likes."""
        with self._lock:
            if done is not None and (detail, done, total) == (self._detail, self._done, self._total):
                return
            self._progress(detail, done, total)
        self._tell()

    def pulse(self) -> Pulse:
        """The state now."""
        with self._lock:
            now = time.monotonic()
            last = self._phases[-1] if self._phases else _Phase("", None, self._progress_at)
            limits = [phase.stall_s for phase in self._phases if phase.stall_s is not None]
            return Pulse(
                phase=last.name,
                phase_s=now - last.began,
                detail=self._detail,
                done=self._done,
                total=self._total,
                silent_s=now - self._progress_at,
                stall_s=limits[-1] if limits else None,
                count=self._count,
            )

    def seconds(self, reset: bool = False) -> dict[str, float]:
        """Seconds spent per phase name since the start or the last reset, open phases included; time in a nested phase
        counts for both."""
        with self._lock:
            now = time.monotonic()
            for phase in self._phases:
                self._account(phase, now)
            result = dict(self._seconds)
            if reset:
                self._seconds.clear()
            return result

    def _account(self, phase: _Phase, now: float) -> None:
        self._seconds[phase.name] = self._seconds.get(phase.name, 0.0) + now - phase.counted_to
        phase.counted_to = now

    def _progress(self, detail: str, done: int | None, total: int | None) -> None:
        self._detail, self._done, self._total = detail, done, total
        self._progress_at = time.monotonic()
        self._count += 1

    def _tell(self) -> None:
        if self._listener is not None:
            self._listener(self.pulse())
