"""AnchorLoop's real runs: it learns, its arms show their properties, and a kill in any phase costs nothing twice."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from launch import Launch, metrics_of, newest_run, stable, summary_of

pytestmark = pytest.mark.slow

SHORT = (
    "algo=anchorloop",
    "seed=3",
    "algo.iterations=2",
    "algo.curriculum.steps=2",
    "algo.curriculum.prompts=2",
    "algo.pool.tasks=12",
    "algo.executor.tasks_per_step=4",
    "algo.executor.batches=2",
    "algo.eval.tasks=8",
    "algo.eval.samples=2",
)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_held_out_accuracy_rises(seed: int, tmp_path: Path, cache: Path) -> None:
    launch = Launch(tmp_path, ["algo=anchorloop", f"seed={seed}"], cache)
    assert launch.wait(1700) == 0, launch.console()[-3000:]
    summary = summary_of(launch.run_dir)
    before, after = summary["eval"]["before"], summary["eval"]["after"]
    assert after["pass_at_1"] >= before["pass_at_1"] + 0.10
    assert after["interval"][0] > before["interval"][1]
    assert len(summary["iterations"]) == 3
    for row in summary["iterations"]:
        assert row["pool"]["leaks"] == 0
        assert row["executor"]["tool_calls"] > 0.5
    assert all(line["logprob_pearson"] > 0.99 for line in metrics_of(launch.run_dir))


def answers_of(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "anchor" / "answers.jsonl").read_text().splitlines()]


def position_of(folder: Path) -> dict[str, Any]:
    """Of the newest checkpoint; empty while there is none, or while it is being replaced."""
    try:
        state = max(newest_run(folder).glob("checkpoints/step_*")) / "state.json"
        return dict(json.loads(state.read_text())["position"])
    except (OSError, ValueError, IndexError):
        return {}


@pytest.mark.timeout(3000)
def test_a_run_killed_in_every_phase_ends_as_an_unbroken_one(tmp_path: Path, cache: Path) -> None:
    whole = Launch(tmp_path / "whole", SHORT, cache)
    assert whole.wait(1200) == 0, whole.console()[-3000:]
    broken = tmp_path / "broken"
    for stage, iteration in (("curriculum", 1), ("executor", 1), ("curriculum", 2), ("executor", 2)):
        launch = Launch(broken, [*SHORT, "resume=auto"], cache)
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and launch.process.poll() is None:
            place = position_of(broken)
            if (place.get("stage"), place.get("iteration")) == (stage, iteration):
                break
            time.sleep(0.05)
        assert launch.process.poll() is None, launch.console()[-3000:]
        launch.kill()
    last = Launch(broken, [*SHORT, "resume=auto"], cache)
    assert last.wait(900) == 0, last.console()[-3000:]
    assert stable(metrics_of(last.run_dir)) == stable(metrics_of(whole.run_dir))
    ours, theirs = answers_of(last.run_dir), answers_of(whole.run_dir)
    assert len({group["key"] for group in ours}) == len(ours)  # none was sampled twice
    assert sorted(ours, key=lambda g: g["key"]) == sorted(theirs, key=lambda g: g["key"])  # and none is lost


@pytest.mark.timeout(1200)
def test_agent0_has_no_anchor(tmp_path: Path, cache: Path) -> None:
    launch = Launch(tmp_path, ["algo=agent0", *SHORT[1:], "algo.iterations=1"], cache)
    assert launch.wait(1100) == 0, launch.console()[-3000:]
    for line in metrics_of(launch.run_dir):
        if line["phase"] == "executor":
            assert line["structure/zero"] == 1.0
            assert line["unresolved/anchor"] == 1.0
        else:
            assert line["reward/frontier"] == 0.0
    groups = answers_of(launch.run_dir)
    assert all(".filter." in group["batch"] for group in groups)  # asked for the pool's filter alone
