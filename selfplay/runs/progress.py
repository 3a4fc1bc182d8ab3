"""The console: a live line with phase, step, reward, pass rate, pool size and time left, and a table at the end.

On a terminal the line is redrawn by rich; elsewhere a plain line is printed now and then, so that logs stay readable.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from selfplay.runs.config import LoggingConfig
from selfplay.runs.summary import EvalScore, Summary

RECENT = 20  # steps whose mean duration the time left is computed from


class Progress:
    """Shows one run; use as a context manager. All methods return at once. `now` is the clock, in seconds."""

    def __init__(
        self, logging: LoggingConfig, console: Console | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._now = now
        self.console = console or Console(file=sys.stdout, highlight=False, soft_wrap=True)
        mode = logging.console
        if mode == "auto":
            mode = "live" if self.console.is_terminal else "plain"
        self.mode = mode
        self.plain_every_s = logging.plain_every_s
        self._live = Live(console=self.console, refresh_per_second=4, transient=True) if mode == "live" else None
        self._phase = "starting"
        self._step, self._total = 0, 0
        self._shown: dict[str, float] = {}
        self._durations: deque[float] = deque(maxlen=RECENT)
        self._started = self._step_ended = self._now()
        self._printed = -float("inf")

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def phase(self, name: str, step: int = 0, total: int = 0) -> None:
        """Enter a phase of `total` steps (0: it has no steps) that begins after `step`; the time left starts anew."""
        self._phase, self._step, self._total = name, step, total
        self._durations.clear()
        self._step_ended = self._now()
        self._shown = {}
        self._show(force=True)

    def step(self, step: int, **values: float) -> None:
        """Step `step` of the phase is done. `values` are shown by their names: reward, pass_rate, pool, loss, ..."""
        now = self._now()
        done = max(1, step - self._step)  # a warm-up reports several steps at once
        self._durations.append((now - self._step_ended) / done)
        self._step_ended, self._step = now, step
        self._shown = dict(values)
        self._show(force=step == self._total)

    def activity(self, name: str) -> None:
        """What is being done inside the step (propose, solve, update, ...); shown on the live line only."""
        if self._live is not None:
            self._live.update(Text(f"{self.line()}  {name}"))

    def note(self, message: str) -> None:
        """A line that stays."""
        if self.mode != "off":
            self.console.print(escape(message))

    def line(self) -> str:
        """The line as it stands."""
        parts = [f"{clock(self._now() - self._started)}  {self._phase}"]
        if self._total:
            parts.append(f"step {self._step}/{self._total}")
        parts.extend(f"{name.replace('_', ' ')} {number(value)}" for name, value in self._shown.items())
        left = self.seconds_left()
        if left is not None:
            parts.append(f"{clock(left)} left")
        return "  ".join(parts)

    def seconds_left(self) -> float | None:
        """From the mean of the last steps; None before the phase's first step is done and when none is left."""
        if not self._durations or self._step >= self._total:
            return None
        return (self._total - self._step) * sum(self._durations) / len(self._durations)

    def finish(self, summary: Summary, where: str) -> None:
        """Stop the live line and print the final table."""
        if self._live is not None:
            self._live.stop()
        if self.mode != "off":
            self.console.print(final_table(summary, where))

    def _show(self, force: bool) -> None:
        if self._live is not None:
            self._live.update(Text(self.line()))
        elif self.mode == "plain" and (force or self._now() - self._printed >= self.plain_every_s):
            self._printed = self._now()
            self.console.print(escape(self.line()))


def final_table(summary: Summary, where: str) -> Table:
    """Status, steps, time, held-out pass@1 before and after, throughput and the seconds of each phase."""
    table = Table(show_header=False, title=None, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _rows(summary, where).items():
        table.add_row(name, escape(value))
    return table


def _rows(summary: Summary, where: str) -> Mapping[str, str]:
    rows = {"status": f"{summary.status}{f': {summary.message}' if summary.message else ''}"}
    rows["steps"] = f"{summary.steps} in {clock(summary.seconds)} (seed {summary.seed})"
    for name, score in (("before", summary.before), ("after", summary.after)):
        if score is not None:
            rows[f"held-out pass@1 {name}"] = percent(score)
    if summary.gain:
        rows["gain"] = "{mean:+.1%} [{low:+.1%}, {high:+.1%}] over specifications".format(**summary.gain)
    rows |= {f"warm-up round {row['round']}": _round(row) for row in summary.warmup}
    rows |= {name.replace("_", " "): number(value) for name, value in summary.throughput.items()}
    if summary.timing_s:
        ordered = sorted(summary.timing_s.items(), key=lambda item: -item[1])
        rows["seconds"] = ", ".join(f"{name} {value:.1f}" for name, value in ordered)
    rows["run directory"] = where
    return rows


def _round(row: Mapping[str, Any]) -> str:
    """`valid 41.0%, pass@1 heldout 20.5%, 312 of 400 rollouts, 20 steps`."""
    scores = ", ".join(f"{name} {value:.1%}" for name, value in row["pass_at_1"].items())
    what = "demonstrations" if row["round"] == 0 else "verified rollouts kept"
    tail = "" if row["used"] else "; taken back"
    kept = f"{row['kept']} of {row['collected']} {what}, {row['steps']} steps"
    return f"valid {row['q_valid']:.1%}, pass@1 {scores}; {kept}{tail}"


def percent(score: EvalScore) -> str:
    """`61.0% [54.1%, 67.5%], n = 200`."""
    low, high = score.interval
    return f"{score.pass_at_1:.1%} [{low:.1%}, {high:.1%}], n = {score.n}"


def clock(seconds: float) -> str:
    """`0:42`, `12:05`, `3:00:10`."""
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def number(value: float) -> str:
    """Counts without a fraction, everything else with three significant digits or so."""
    if isinstance(value, int) or (float(value).is_integer() and abs(value) >= 1):
        return f"{int(value)}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.0f}"
