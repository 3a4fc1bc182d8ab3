"""What people see of a run."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from selfplay.runs.config import LoggingConfig
from selfplay.runs.progress import Progress, clock, number
from selfplay.runs.summary import EvalScore, Status, Summary


def shown(mode: str, terminal: bool, plain_every_s: float = 0.0) -> tuple[Progress, io.StringIO]:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=200, highlight=False, soft_wrap=True)
    return Progress(LoggingConfig(console=mode, plain_every_s=plain_every_s), console), out


def test_plain_lines_name_phase_step_values_and_time_left() -> None:
    progress, out = shown("auto", terminal=False)
    assert progress.mode == "plain"
    with progress:
        progress.phase("train", 0, 3)
        progress.step(1, reward=0.25, pass_rate=0.5, pool=61)
        progress.step(2, reward=0.25, pass_rate=0.5, pool=62)
        progress.step(3, reward=0.5, pass_rate=0.75, pool=62)
    lines = out.getvalue().splitlines()
    assert re.fullmatch(r"0:00  train  step 0/3", lines[0])
    assert re.fullmatch(r"0:00  train  step 1/3  reward 0\.250  pass rate 0\.500  pool 61  0:00 left", lines[1])
    assert re.fullmatch(r"0:00  train  step 3/3  reward 0\.500  pass rate 0\.750  pool 62", lines[3])


def test_plain_lines_are_not_printed_more_often_than_asked() -> None:
    progress, out = shown("plain", terminal=False, plain_every_s=3600.0)
    with progress:
        progress.phase("train", 0, 100)
        for step in range(1, 101):
            progress.step(step)
    assert [line.split()[-1] for line in out.getvalue().splitlines()] == ["0/100", "100/100"]


def test_a_terminal_gets_one_live_line() -> None:
    progress, out = shown("auto", terminal=True)
    assert progress.mode == "live"
    with progress:
        progress.phase("train", 0, 2)
        progress.step(1, reward=0.5)
        progress.activity("solve 3/64")
        progress.note("[warm-up] taken from the cache")
    assert "[warm-up] taken from the cache" in out.getvalue()
    assert "train  step 1/2" in progress.line()


def test_off_prints_nothing() -> None:
    progress, out = shown("off", terminal=True)
    with progress:
        progress.phase("train", 0, 1)
        progress.step(1)
        progress.note("note")
        progress.finish(Summary(seed=0), "outputs/x")
    assert out.getvalue() == ""


def test_the_final_table_has_the_results() -> None:
    progress, out = shown("plain", terminal=False)
    summary = Summary(
        seed=2,
        status=Status.FINISHED,
        steps=40,
        seconds=245.0,
        before=EvalScore(0.4, 200, (0.334, 0.469)),
        after=EvalScore(0.7, 200, (0.633, 0.759)),
        throughput={"tokens_per_s": 1234.5},
        timing_s={"update": 10.0, "solve": 30.04},
    )
    progress.finish(summary, "outputs/ancora/x")
    text = out.getvalue()
    for expected in (
        "finished",
        "40 in 4:05 (seed 2)",
        "40.0% [33.4%, 46.9%], n = 200",
        "70.0% [63.3%, 75.9%], n = 200",
        "solve 30.0, update 10.0",
        "outputs/ancora/x",
    ):
        assert expected in text


def test_time_left_is_the_mean_of_recent_steps() -> None:
    times = [100.0]
    progress = Progress(LoggingConfig(console="off"), now=lambda: times[-1])
    progress.phase("train", 10, 20)
    assert progress.seconds_left() is None
    for step, ends in ((11, 104.0), (12, 110.0)):
        times.append(ends)
        progress.step(step)
    assert progress.seconds_left() == 8 * 5.0


@pytest.mark.parametrize(("seconds", "text"), [(5.9, "0:05"), (65, "1:05"), (3600, "1:00:00"), (36610, "10:10:10")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(61, "61"), (62.0, "62"), (0.0, "0.000"), (0.12345, "0.123"), (1234.5, "1234")]
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text
