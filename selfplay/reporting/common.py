"""Figures that every system's runs have: what a run brought, what the engine did, where the time went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from selfplay.reporting.figures import Figure, bars, by_arm, lines, present
from selfplay.reporting.runs import Run


def result_figures(groups: Mapping[str, Sequence[Run]]) -> list[Figure]:
    """Held-out accuracy before and after, of every run."""
    rows = []
    for runs in groups.values():
        for run in runs:
            for when in ("before", "after"):
                score = (run.summary.get("eval") or {}).get(when)
                if score:
                    low, high = score["interval"]
                    rows.append((run.label, when, 100 * score["pass_at_1"], (100 * low, 100 * high)))
    caption = "Held-out pass@1 in percent, with 95% intervals over attempts."
    return present(bars("result", "What the run brought", caption, rows))


def engine_figures(groups: Mapping[str, Sequence[Run]]) -> list[Figure]:
    """Health of the updates, and the seconds."""
    agreement = lines(
        "engine",
        "The updates",
        "Entropy of the policy in nats, norm of the gradient, and the largest difference between the log-probability of"
        " a token by the trainer and by the server: it stays near 0 while both hold the same weights.",
        {
            "entropy": by_arm(groups, "entropy"),
            "gradient norm": by_arm(groups, "grad_norm"),
            "log-prob difference": by_arm(groups, "logprob_diff_max"),
        },
    )
    tokens = lines(
        "tokens",
        "Size and pace of the steps",
        "Tokens that the policy wrote in a step, and seconds of the step.",
        {"tokens": by_arm(groups, "tokens"), "seconds": by_arm(groups, "timing/step")},
    )
    rows = [
        (run.label, phase, float(seconds), None)
        for runs in groups.values()
        for run in runs[:1]
        for phase, seconds in sorted(run.summary.get("timing_s", {}).items(), key=lambda item: -item[1])
        if seconds >= 0.5
    ]
    seconds = bars(
        "seconds", "Where the time went", "Seconds by phase, all launches together.", [*_only_phases(rows)], "seconds"
    )
    return present(agreement, tokens, seconds)


def _only_phases(rows: Sequence[tuple[str, str, float, None]]) -> list[tuple[str, str, float, None]]:
    """One group a phase, one bar a run: phases are compared across runs."""
    return [(phase, label, seconds, None) for label, phase, seconds, _ in sorted(rows, key=lambda row: -row[2])]


def summary_table(runs: Sequence[Run]) -> pd.DataFrame:
    """A row a run: how it ended, and its scores."""
    rows = []
    for run in runs:
        scores = run.summary.get("eval") or {}
        before, after, gain = (scores.get(key) or {} for key in ("before", "after", "gain"))
        rows.append(
            {
                "run": run.label,
                "status": run.summary.get("status"),
                "steps": run.summary.get("steps"),
                "minutes": round(float(run.summary.get("seconds", 0.0)) / 60, 1),
                "before, %": _percent(before),
                "after, %": _percent(after),
                "gain, points": f"{100 * gain['mean']:+.1f} [{100 * gain['low']:+.1f}, {100 * gain['high']:+.1f}]"
                if gain
                else "",
                "message": run.summary.get("message", ""),
            }
        )
    return pd.DataFrame(rows)


def _percent(score: Mapping[str, object]) -> str:
    if not score:
        return ""
    low, high = score["interval"]  # type: ignore[misc]
    return f"{100 * float(score['pass_at_1']):.1f} [{100 * low:.1f}, {100 * high:.1f}]"  # type: ignore[arg-type, has-type]
