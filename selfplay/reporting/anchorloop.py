"""AnchorLoop's figures: accuracy by iteration, the rewards' terms, what the anchor does and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from selfplay.reporting.figures import Figure, bars, by_arm, lines, present, stacked, terms
from selfplay.reporting.runs import Run

CURRICULUM, EXECUTOR = "curriculum", "executor"
TERMS = ("uncertainty", "tool", "frontier", "repetition")


def figures(groups: Mapping[str, Sequence[Run]]) -> list[Figure]:
    """Of one run or of several; what is drawn of one run alone is drawn of the first."""
    first = next(iter(groups.values()))[0]
    return present(
        lines(
            "iterations",
            "Held-out accuracy by iteration",
            "Share of held-out tasks that the executor answers rightly: 0 is the warmed-up model. Seeds in a band.",
            {"accuracy": {arm: [_accuracies(run) for run in runs] for arm, runs in groups.items()}},
            x="iteration",
        ),
        lines(
            "curriculum",
            "The curriculum agent",
            "Mean reward of its tasks, and its terms: uncertainty of the frozen executor, use of the tool, the frontier"
            " (the anchor's term), and repetition in the batch.",
            {
                "reward": by_arm(groups, "reward", CURRICULUM),
                **terms(groups, "terms", {term: f"reward/{term}" for term in TERMS}, CURRICULUM),
                "valid format": by_arm(groups, "format_valid", CURRICULUM),
            },
            limits={"valid format": (0, 1)},
        ),
        lines(
            "executor",
            "The executor",
            "Share of rollouts that agree with their group's majority, the majority's share by executor and anchor,"
            " and calls of the tool a rollout.",
            {
                "agreement": by_arm(groups, "reward", EXECUTOR),
                **terms(
                    groups,
                    "majority",
                    {"executor's share": "share/current", "anchor's share": "share/anchor"},
                    EXECUTOR,
                ),
                "tool calls": by_arm(groups, "tool_calls", EXECUTOR),
            },
            limits={"agreement": (0, 1)},
        ),
        lines(
            "gap",
            "What the anchor changes",
            "Variance of the effective advantage; share of tasks with a gap to the anchor, or with other majorities.",
            {
                "advantage variance": by_arm(groups, "advantage_variance", EXECUTOR),
                "gap above 0": by_arm(groups, "gap_positive", CURRICULUM),
                "majorities differ": by_arm(groups, "majorities_differ", EXECUTOR),
            },
        ),
        stacked(
            "structure",
            f"Structure of the historical term ({first.label})",
            "Share of tasks whose historical term is 0, a multiple of the current one, or neither.",
            _structure(first),
            "share of tasks",
        ),
        _overhead(groups),
        _admission(first),
    )


def _accuracies(run: Run) -> pd.Series:
    values = {}
    scores = run.summary.get("eval") or {}
    if scores.get("before"):
        values[0] = scores["before"]["pass_at_1"]
    for row in run.iterations:
        if "accuracy" in row:
            values[row["iteration"]] = row["accuracy"]
    if scores.get("after"):
        values[len(run.iterations)] = scores["after"]["pass_at_1"]
    return pd.Series(values, dtype=float)


def _structure(run: Run) -> pd.DataFrame:
    table = run.steps(EXECUTOR)
    columns = [column for column in table if str(column).startswith("structure/")]
    found = table[columns].rename(columns=lambda column: column.removeprefix("structure/"))
    return found.set_axis(range(1, len(found) + 1), axis=0)


def _overhead(groups: Mapping[str, Sequence[Run]]) -> Figure | None:
    """Seconds of each stage, by iteration, of the first seed of every arm."""
    rows = [
        (f"{runs[0].arm}, iteration {row['iteration']}", stage, float(seconds), None)
        for runs in groups.values()
        for row in runs[0].iterations
        for stage, seconds in row.get("seconds", {}).items()
        if stage != "all"
    ]
    caption = "Seconds of the stages of each iteration; `anchor` is what the anchor's rollouts took."
    return bars("stages", "What an iteration costs", caption, rows, "seconds")


def _admission(run: Run) -> Figure | None:
    """What became of the sampled tasks, by iteration."""
    rows: list[tuple[str, str, float, Any]] = []
    for row in run.iterations:
        pool = row.get("pool") or {}
        name = f"iteration {row['iteration']}"
        rows.append((name, "kept", float(pool.get("kept", 0)), None))
        rows += [(name, reason, float(count), None) for reason, count in pool.get("rejected", {}).items()]
        if pool.get("duplicates"):
            rows.append((name, "duplicate", float(pool["duplicates"]), None))
    caption = "Tasks sampled from the trained curriculum agent: kept, or why not."
    return bars("admission", f"The pool's admission ({run.label})", caption, rows, "tasks")
