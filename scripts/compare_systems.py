"""ANCORA against its baselines at an equal number of solver attempts: `python scripts/compare_systems.py --out FOLDER`.

Every system runs with every seed, one run after the other, from the same warmed-up model, until it has spent
`--attempts` attempts of the solver. A run that has finished is not repeated, one that was killed is continued. Prints a
table and keeps it as Markdown in FOLDER.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SYSTEMS: dict[str, list[str]] = {
    "ancora": ["algo=ancora"],
    "freeze-proposer": ["experiment=ancora_freeze_proposer"],
    "no-descent": ["experiment=ancora_no_descent"],
    "psv": ["algo=psv"],
    "rft": ["algo=rft"],
}
# The budget of attempts ends a run, not its number of steps, so no schedule may depend on that number. Rounds of the
# warm-up are played by the system itself: without them all systems start from one model.
COMMON = ["algo.steps=1000", "algo.optim.warmup_ratio=0", "algo.warmup.rounds=0"]


@dataclass(frozen=True)
class Run:
    """A finished run."""

    summary: dict[str, Any]
    metrics: list[dict[str, Any]]

    @property
    def before(self) -> float:
        return 100 * float(self.summary["eval"]["before"]["pass_at_1"])

    @property
    def after(self) -> float:
        return 100 * float(self.summary["eval"]["after"]["pass_at_1"])

    @property
    def attempts(self) -> int:
        return int(sum(line["attempts"] for line in self.metrics))


def finished(folder: Path, name: str) -> Run | None:
    """The newest finished run by that name."""
    for path in sorted(folder.glob(f"*/*-{name}"), reverse=True):
        summary = json.loads((path / "summary.json").read_text())
        if summary["status"] == "finished":
            lines = (path / "metrics.jsonl").read_text().splitlines()
            return Run(summary, [json.loads(line) for line in lines])
    return None


def train(folder: Path, name: str, overrides: list[str]) -> Run:
    command = [sys.executable, "-m", "selfplay.train", f"output_dir={folder}", f"name={name}", "resume=auto"]
    subprocess.run([*command, *overrides], check=True)
    run = finished(folder, name)
    assert run is not None, f"{name} left no finished run in {folder}"
    return run


def markdown(runs: dict[str, list[Run]], seeds: list[int]) -> str:
    """A line a system: pass@1 after, mean and each seed's; attempts, steps and pool of the first seed."""
    lines = [
        f"| system | pass@1 before | pass@1 after (mean, sd; seeds {', '.join(map(str, seeds))}) | gain | attempts "
        "| steps | pool at the end |",
        "|---|---|---|---|---|---|---|",
    ]
    for system, mine in runs.items():
        after = np.array([run.after for run in mine])
        before = float(np.mean([run.before for run in mine]))
        each = ", ".join(f"{value:.1f}" for value in after)
        spread = f"{after.std(ddof=1):.1f}" if len(after) > 1 else "-"

        def mean(values: list[float]) -> str:
            return f"{np.mean(values):.0f}"

        cells = [
            system,
            f"{before:.1f}",
            f"{after.mean():.1f}, {spread} ({each})",
            f"{after.mean() - before:+.1f}",
            mean([run.attempts for run in mine]),
            mean([len(run.metrics) for run in mine]),
            mean([run.metrics[-1]["pool/size"] for run in mine]),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--attempts", type=int, default=1600)
    parser.add_argument("--systems", nargs="+", choices=sorted(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("overrides", nargs="*", help="settings for every run, as `backbone=hf`")
    arguments = parser.parse_args()
    folder = arguments.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    common = [*COMMON, f"algo.max_solver_samples={arguments.attempts}", *arguments.overrides]
    runs: dict[str, list[Run]] = {system: [] for system in arguments.systems}
    for seed in arguments.seeds:
        for system in arguments.systems:
            name = f"{system}-seed{seed}"
            run = finished(folder, name) or train(folder, name, [*SYSTEMS[system], *common, f"seed={seed}"])
            runs[system].append(run)
            print(f"{name}: {run.before:.1f} -> {run.after:.1f}", flush=True)
    table = markdown(runs, arguments.seeds)
    (folder / "comparison.md").write_text(table)
    print(table)


if __name__ == "__main__":
    main()
