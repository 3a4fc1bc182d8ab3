"""BenchEvolver's figures: what the search made of the seeds, and training on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from selfplay.benchmarks import livecodebench
from selfplay.reporting.figures import COLOURS, Figure, bars, canvas, finish, lines, present
from selfplay.reporting.runs import Run


def figures(groups: Mapping[str, Sequence[Run]]) -> list[Figure]:
    """Of one run or of several; what is drawn of one run alone is drawn of the first."""
    first = next(iter(groups.values()))[0]
    return present(
        _drop(groups),
        _lineages(first),
        _rejections(groups),
        _families(first),
        _curves(groups, "rewards", "training", "Training on each mixture", "Mean reward of a step's attempts."),
        _curves(groups, "tokens", "lengths", "Length of responses", "Tokens of a response, mean of a step."),
        _mixtures(groups),
    )


def _rounds(groups: Mapping[str, Sequence[Run]]) -> list[tuple[str, dict[str, Any]]]:
    """(name, row) of every round of every run."""
    found = []
    for runs in groups.values():
        for run in runs:
            for row in run.iterations:
                name = run.label if len(run.iterations) == 1 else f"{run.label}, round {row['round']}"
                found.append((name, row))
    return found


def _drop(groups: Mapping[str, Sequence[Run]]) -> Figure | None:
    rows: list[tuple[str, str, float, Any]] = []
    for name, row in _rounds(groups):
        accuracy, again = row.get("accuracy") or {}, row.get("again")
        if accuracy.get("accepted") is None:
            continue
        rows.append((name, "seeds", 100 * accuracy["seeds_of_accepted"], None))
        rows.append((name, "accepted", 100 * accuracy["accepted"], None))
        if again:
            rows.append((name, "seeds, fresh attempts", 100 * again["fresh_seeds"], None))
            rows.append((name, "accepted, fresh attempts", 100 * again["fresh"], None))
    caption = "Accuracy of the panel, in percent. Acceptance prefers low draws; fresh attempts do not."
    return bars("drop", "How much harder the tasks are", caption, rows)


def _lineages(run: Run) -> Figure | None:
    """Every lineage as a line from its seed through its accepted tasks."""
    lines_: dict[str, dict[int, float]] = {}
    for path in sorted((run.path / "rounds").glob("*/evolved.jsonl")):
        for record in run.jsonl(str(path.relative_to(run.path))):
            lineage = livecodebench.task_of(record).source["lineage"]
            line = lines_.setdefault(f"{path.parent.name} {lineage['seed']}", {0: lineage["accuracy_of_seed"]})
            line[lineage["generation"]] = lineage["accuracy"]
    if not lines_:
        return None
    drawing, (ax,) = canvas(1)
    table = pd.DataFrame(lines_).sort_index()
    for place, name in enumerate(table):
        series = table[name].dropna()
        shift = 0.08 * ((place % 7) - 3) / 3  # lines that coincide stay visible
        ax.plot(series.index + shift, 1 - series.values, color=COLOURS[0], alpha=0.35, lw=1, marker="o", ms=3)
    mean = 1 - table.mean(axis=1)
    ax.plot(mean.index, mean.values, color=COLOURS[1], lw=2.2, marker="o", label="mean")
    ax.set(xlabel="generation (0 is the seed)", ylabel="difficulty")
    ax.set_xticks(range(int(table.index.max()) + 1))
    ax.legend()
    data = table.rename_axis("generation").reset_index().melt("generation", var_name="lineage", value_name="accuracy")
    caption = "Difficulty (1 - accuracy) from the seed through the tasks accepted in its lineage."
    return finish(drawing, "lineages", f"Lineages ({run.label})", caption, data.dropna())


def _rejections(groups: Mapping[str, Sequence[Run]]) -> Figure | None:
    rows: list[tuple[str, str, float, Any]] = []
    for name, row in _rounds(groups):
        rows.append((name, "accepted", float(row["accepted"]), None))
        rows += [(name, reason, float(count), None) for reason, count in row.get("rejected", {}).items()]
    caption = "Steps of the search: accepted, or why not."
    return bars("steps", "What became of the steps", caption, rows, "steps")


def _families(run: Run) -> Figure | None:
    rows = [
        ("accepted", family, float(count), None)
        for row in run.iterations[:1]
        for family, count in list(row.get("families", {}).items())[:20]
    ]
    rows = [(family, "accepted", count, None) for _, family, count, _ in rows]
    caption = "Accepted tasks by mutation family."
    return bars("families", f"Mutation families ({run.label})", caption, rows, "tasks")


def _curves(groups: Mapping[str, Sequence[Run]], key: str, name: str, title: str, caption: str) -> Figure | None:
    """A curve a mixture, a panel a round."""
    panels: dict[str, dict[str, list[pd.Series]]] = {}
    for arm, runs in groups.items():
        for run in runs:
            for row in run.iterations:
                for mixture, result in (row.get("mixtures") or {}).items():
                    values = result.get(key) or []
                    curve = mixture if len(groups) == 1 else f"{mixture}, {arm}"
                    panel = panels.setdefault(f"round {row['round']}", {})
                    panel.setdefault(curve, []).append(pd.Series(values, index=range(1, len(values) + 1), dtype=float))
    return lines(name, title, caption, panels)


def _mixtures(groups: Mapping[str, Sequence[Run]]) -> Figure | None:
    rows: list[tuple[str, str, float, Any]] = []
    for runs in groups.values():
        for run in runs:
            before = (run.summary.get("eval") or {}).get("before")
            if before:
                rows.append((run.label, "before", 100 * before["pass_at_1"], _percent(before["interval"])))
    for name, row in _rounds(groups):
        for mixture, result in (row.get("mixtures") or {}).items():
            if "accuracy" in result:
                rows.append((name, mixture, 100 * result["accuracy"], _percent(result["interval"])))
    caption = "Held-out accuracy in percent after training on each mixture, from the same start and for as many steps."
    return bars("mixtures", "Seeds, evolved tasks, or both", caption, rows)


def _percent(interval: Sequence[float]) -> tuple[float, float]:
    return 100 * interval[0], 100 * interval[1]
