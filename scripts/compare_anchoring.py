"""What the anchor costs and what it changes: `python scripts/compare_anchoring.py --out FOLDER`.

AnchorLoop with its cache, without it, and Agent0, one run after the other from one warmed-up model, iteration by
iteration: seconds, effective-advantage variance, share of tasks with a positive reference gap, structure of A_hist
(AnchorLoop, section 6). A run that has finished is not repeated, one that was killed is continued. Prints the tables
and keeps them as Markdown in FOLDER.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from compare_systems import Run, finished, train

ARMS: dict[str, list[str]] = {
    "anchorloop": ["algo=anchorloop"],
    "uncached": ["experiment=anchorloop_no_cache"],
    "agent0": ["algo=agent0"],
}
COLUMNS = (
    "steps",
    "seconds",
    "anchor, s",
    "anchor, %",
    "variance",
    "gap > 0, %",
    "zero, %",
    "collinear, %",
    "other, %",
)


def numbers(row: dict[str, Any]) -> list[float]:
    """An iteration's row of `summary.json` in the order of COLUMNS."""
    executor, curriculum = row["executor"], row.get("curriculum", {})
    structure = [100 * executor[f"structure/{kind}"] for kind in ("zero", "collinear", "other")]
    seconds, anchor = row["seconds"]["all"], row["seconds"].get("anchor", 0.0)
    gap = 100 * curriculum.get("gap_positive", 0.0)
    return [
        executor["steps"],
        seconds,
        anchor,
        100 * row["anchor_overhead"],
        executor["advantage_variance"],
        gap,
        *structure,
    ]


def table(runs: dict[str, list[Run]]) -> str:
    """A line an arm and iteration, means over seeds; the accuracy is the executor's after the iteration."""
    lines = [
        "| arm | iteration | " + " | ".join(COLUMNS) + " | held-out, % |",
        "|---|---|" + "---|" * (len(COLUMNS) + 1),
    ]
    for arm, mine in runs.items():
        for i in range(len(mine[0].summary["iterations"])):
            rows = [run.summary["iterations"][i] for run in mine]
            values = np.mean([numbers(row) for row in rows], axis=0)
            accuracy = [
                100 * row["accuracy"] if "accuracy" in row else run.after for row, run in zip(rows, mine, strict=True)
            ]
            digits = (0, 1, 1, 1, 3, 1, 1, 1, 1)
            cells = [f"{value:.{digit}f}" for value, digit in zip(values, digits, strict=True)]
            lines.append(f"| {arm} | {i + 1} | " + " | ".join(cells) + f" | {np.mean(accuracy):.1f} |")
    return "\n".join(lines) + "\n"


def ratios(runs: dict[str, list[Run]]) -> str:
    """What anchoring adds, in seconds: to the rest of the same iterations, and against the other arms."""

    def total(arm: str, stage: str) -> float:
        rows = [row for run in runs[arm] for row in run.summary["iterations"]]
        return float(np.mean([row["seconds"].get(stage, 0.0) for row in rows]))

    if set(runs) != set(ARMS):
        return ""
    adds = {arm: 100 * total(arm, "anchor") / (total(arm, "all") - total(arm, "anchor")) for arm in runs}
    over = 100 * (total("anchorloop", "all") / total("agent0", "all") - 1)
    against = 100 * (total("anchorloop", "all") / total("uncached", "all") - 1)
    return (
        f"Anchor rollouts add {adds['anchorloop']:.1f}% to the rest of an iteration with the cache and "
        f"{adds['uncached']:.1f}% without (paper, against Agent0: 17.6% and 59.5%).\n"
        f"A whole iteration with the cache: {against:+.1f}% against uncached (paper: -26.3%), {over:+.1f}% against "
        "Agent0 (paper: +17.6%), whose filter leaves it fewer executor steps.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--arms", nargs="+", choices=sorted(ARMS), default=list(ARMS))
    parser.add_argument("overrides", nargs="*", help="settings for every run, as `backbone=qwen3_4b_base`")
    arguments = parser.parse_args()
    folder = arguments.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    runs: dict[str, list[Run]] = {arm: [] for arm in arguments.arms}
    for seed in arguments.seeds:
        for arm in arguments.arms:
            name = f"{arm}-seed{seed}"
            overrides = [*ARMS[arm], *arguments.overrides, f"seed={seed}"]
            runs[arm].append(finished(folder, name) or train(folder, name, overrides))
            print(f"{name}: {runs[arm][-1].before:.1f} -> {runs[arm][-1].after:.1f}", flush=True)
    text = table(runs) + "\n" + ratios(runs)
    (folder / "anchoring.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
