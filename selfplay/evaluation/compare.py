"""Two evaluations question by question: the difference of their accuracies by the paired bootstrap."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.table import Table

from selfplay.config.errors import ConfigError
from selfplay.evaluation.results import by_item
from selfplay.objectives.intervals import bootstrap_difference
from selfplay.runs.files import RunDirError, read_jsonl


def read(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The samples of an evaluation by benchmark. Raises ConfigError."""
    files = sorted((folder / "samples").glob("*.jsonl"))
    if not files or not (folder / "settings.json").is_file():
        raise ConfigError(f"{folder}: it is no folder of an evaluation")
    try:
        return {path.stem: read_jsonl(path) for path in files}
    except (RunDirError, OSError) as error:
        raise ConfigError(str(error)) from error


def differences(first: Path, second: Path) -> list[dict[str, Any]]:
    """A row a benchmark that both have: accuracies over the questions that both answered, and their difference.

    Raises:
        ConfigError: a folder is no evaluation, or they share no benchmark over the same data.
    """
    before, after = read(first), read(second)
    rows = []
    for name in before:
        if name not in after or not before[name] or not after[name]:
            continue
        if before[name][0]["checksum"] != after[name][0]["checksum"]:
            continue
        a, b = by_item(before[name]), by_item(after[name])
        shared = [item for item in a if item in b]
        if not shared:
            continue
        rates = [[sum(one[item]) / len(one[item]) for item in shared] for one in (a, b)]
        change = bootstrap_difference(rates[1], rates[0])
        rows.append(
            {
                "benchmark": name,
                "items": len(shared),
                "first": sum(rates[0]) / len(shared),
                "second": sum(rates[1]) / len(shared),
                "difference": change.mean,
                "interval": [change.low, change.high],
            }
        )
    if not rows:
        raise ConfigError(f"{first} and {second} share no benchmark over the same data")
    return rows


def compared(first: Path, second: Path) -> Table:
    """The differences for people; a star where the interval leaves out 0."""
    rows = differences(first, second)
    settings = [json.loads((folder / "settings.json").read_text(encoding="utf-8")) for folder in (first, second)]
    models = [str(one["model"]) for one in settings]
    out = Table(box=None, pad_edge=False)
    out.add_column("benchmark", no_wrap=True)
    for name in ("questions", f"{models[0]}, %", f"{models[1]}, %", "difference", "95% interval", ""):
        out.add_column(name, justify="right")
    for row in rows:
        low, high = row["interval"]
        out.add_row(
            row["benchmark"],
            str(row["items"]),
            f"{100 * row['first']:.1f}",
            f"{100 * row['second']:.1f}",
            f"{100 * row['difference']:+.1f}",
            f"[{100 * low:+.1f}, {100 * high:+.1f}]",
            "*" if low > 0 or high < 0 else "",
        )
    return out
