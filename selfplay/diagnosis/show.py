"""Findings on a terminal, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table
from rich.text import Text

from selfplay.diagnosis.findings import Finding, State

STYLES = {State.OK: "green", State.WARNING: "yellow", State.PROBLEM: "bold red"}


def as_json(found: Sequence[Finding]) -> str:
    """A list of objects with `topic`, `state`, `what` and `fix`."""
    return json.dumps([asdict(one) for one in found], indent=1, ensure_ascii=False)


def print_table(found: Sequence[Finding], verdict: str) -> None:
    """A row a finding, its fix below what was found; then the verdict."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column("topic", no_wrap=True, style="bold")
    table.add_column("state", no_wrap=True)
    table.add_column("what", overflow="fold")
    topic = ""
    for one in found:
        what = Text(one.what)
        if one.fix:
            what.append(f"\nfix: {one.fix}", style="cyan")
        table.add_row("" if one.topic == topic else one.topic, Text(one.state, style=STYLES[one.state]), what)
        topic = one.topic
    console = Console(highlight=False)
    console.print(table)
    console.print(Text(f"\n{verdict}"))
