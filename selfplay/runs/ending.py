"""The end of a launch: the status in summary.json, and one line for the person who waits."""

from __future__ import annotations

import sys

from selfplay.runs.rundir import RunDir
from selfplay.runs.summary import ExitCode, Status, Summary, read_summary, write_summary

LONGEST_MESSAGE = 300


def gist(text: str) -> str:
    """One line of an error's text: a whole remote traceback becomes its last line; the rest is in the log."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    whole = " ".join(lines)
    return whole if len(whole) <= LONGEST_MESSAGE else lines[-1][:LONGEST_MESSAGE]


def record_ending(run_dir: RunDir, seed: int, code: int, message: str) -> None:
    """Make the summary's status agree with the exit code; say on stderr how the run ended if it did not finish."""
    summary = read_summary(run_dir.summary) or Summary(seed=seed)
    status, text = Status.of(code), " ".join(message.split())
    if summary.status is not status or (text and summary.message != text):
        summary.status = status
        summary.message = text or summary.message
        write_summary(run_dir.summary, summary)
    if code == ExitCode.FINISHED:
        return
    if code == ExitCode.BAD_CONFIG:
        print(f"error: {summary.message}", file=sys.stderr)
        return
    reason = f": {summary.message}" if summary.message else ""
    print(f"{status}{reason} (log: {run_dir.logs / 'driver.log'})", file=sys.stderr)
    print(f"continue with: python -m selfplay.train resume={run_dir.path}", file=sys.stderr)
