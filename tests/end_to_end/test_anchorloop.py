"""AnchorLoop's real runs: it learns, its arms show their properties, and a kill in any phase costs nothing twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
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
    phases = (("curriculum", 1), ("anchor", 1), ("executor", 1), ("curriculum", 2), ("pool", 2), ("executor", 2))
    for stage, iteration in phases:
        launch = Launch(broken, [*SHORT, "resume=auto"], cache)
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and launch.process.poll() is None:
            place = position_of(broken)
            if (place.get("stage"), place.get("iteration")) == (stage, iteration):
                break
            time.sleep(0.01)
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


def steps_of(run_dir: Path, phase: str) -> list[dict[str, Any]]:
    return [line for line in metrics_of(run_dir) if line["phase"] == phase]


def no_frontier(run_dir: Path) -> None:
    assert all(line["reward/frontier"] == 0.0 for line in steps_of(run_dir, "curriculum"))
    assert any(line["structure/zero"] < 1.0 for line in steps_of(run_dir, "executor"))


def no_historical_term(run_dir: Path) -> None:
    assert all(line["structure/zero"] == 1.0 for line in steps_of(run_dir, "executor"))
    assert any(line["reward/frontier"] > 0.0 for line in steps_of(run_dir, "curriculum"))


def anchors(*expected: int) -> Callable[[Path], None]:
    def check(run_dir: Path) -> None:
        assert [row["anchor_of"] for row in summary_of(run_dir)["iterations"]] == list(expected)

    return check


def sampled_for_every_step(run_dir: Path) -> None:
    assert all(line["anchor/hit_rate"] == 0.0 for line in steps_of(run_dir, "executor"))


def zero_where_the_majorities_agree(run_dir: Path) -> None:
    for line in steps_of(run_dir, "executor"):
        assert line["structure/zero"] >= 1.0 - line["majorities_differ"] - 1e-9


def no_curriculum_steps(run_dir: Path) -> None:
    assert not steps_of(run_dir, "curriculum")
    assert steps_of(run_dir, "executor")


ARMS: dict[str, tuple[int, Callable[[Path], None]]] = {  # preset -> iterations, its defining property
    "curriculum_only": (1, no_historical_term),
    "executor_only": (1, no_frontier),
    "fixed_anchor": (2, anchors(0, 0)),
    "refresh_2": (3, anchors(0, 0, 2)),
    "refresh_3": (2, anchors(0, 0)),
    "no_cache": (1, sampled_for_every_step),
    "majority_difference": (1, zero_where_the_majorities_agree),
    "center": (1, anchors(0)),
    "no_curriculum": (1, no_curriculum_steps),
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("arm", ARMS)
def test_arms_show_their_property(arm: str, tmp_path: Path, cache: Path) -> None:
    iterations, check = ARMS[arm]
    overrides = [f"experiment=anchorloop_{arm}", *SHORT[1:], f"algo.iterations={iterations}"]
    if arm == "no_curriculum":
        overrides = [o for o in overrides if not o.startswith("algo.curriculum.steps")]
    launch = Launch(tmp_path, overrides, cache)
    assert launch.wait(800) == 0, launch.console()[-3000:]
    check(launch.run_dir)


@pytest.mark.timeout(900)
def test_the_grid_is_a_multirun(tmp_path: Path, cache: Path) -> None:
    """Two by two of the paper's four by four: alpha and lambda."""
    grid = ["algo.executor.adpo.alpha=0.2,0.8", "algo.curriculum.reward.frontier=0.2,0.8"]
    launch = Launch(tmp_path, ["--multirun", *SHORT, "algo.iterations=1", "algo.curriculum.steps=1", *grid], cache)
    assert launch.wait(880) == 0, launch.console()[-3000:]
    runs = sorted((tmp_path / "outputs" / "anchorloop").iterdir())
    assert len(runs) == 4
    assert all(summary_of(run)["status"] == "finished" for run in runs)
