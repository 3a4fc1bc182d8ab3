"""BenchEvolver's real runs: training on what was evolved helps, and a kill costs at most the step under way."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from launch import Launch, metrics_of, newest_run, stable, summary_of

pytestmark = pytest.mark.slow

SHORT = (
    "algo=benchevolver",
    "seed=3",
    "algo.evolution.steps=2",
    "algo.rl.steps=3",
    "algo.rl.problems=4",
    "algo.rl.group=4",
    "algo.eval.tasks=12",
    "algo.eval.samples=2",
)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_training_on_evolved_tasks_raises_held_out_accuracy(seed: int, tmp_path: Path, cache: Path) -> None:
    launch = Launch(tmp_path, ["algo=benchevolver", f"seed={seed}"], cache)
    assert launch.wait(1700) == 0, launch.console()[-3000:]
    summary = summary_of(launch.run_dir)
    before, (row,) = summary["eval"]["before"], summary["iterations"]
    assert row["accepted"] >= 10
    assert row["again"]["fresh"] < row["again"]["fresh_seeds"] - 0.2  # the drop is real in fresh attempts
    assert summary["eval"]["after"]["interval"][0] > before["interval"][1]
    for name in ("evolved", "seed_evolved"):
        assert row["mixtures"][name]["accuracy"] >= before["pass_at_1"] + 0.10
        assert row["mixtures"][name]["accuracy"] > row["mixtures"]["seed"]["accuracy"]
    steps = [len(row["mixtures"][name]["rewards"]) for name in row["mixtures"]]
    assert steps == [16, 16, 16]
    assert all(line["logprob_pearson"] > 0.99 for line in metrics_of(launch.run_dir))


def calls_of(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "calls.jsonl").read_text().splitlines()]


def place_of(folder: Path) -> tuple[Any, ...]:
    """Stage, round, mixture and number of calls, as far as there are any."""
    try:
        run_dir = newest_run(folder)
        position = json.loads((max(run_dir.glob("checkpoints/step_*")) / "state.json").read_text())["position"]
        calls = (run_dir / "calls.jsonl").read_bytes().count(b"\n")
        return position["stage"], position["round"], position["mixture"], calls
    except (OSError, ValueError, IndexError):
        return ("", 0, 0, 0)


@pytest.mark.timeout(3000)
def test_a_run_killed_in_search_and_training_ends_as_an_unbroken_one(tmp_path: Path, cache: Path) -> None:
    rounds = [*SHORT, "algo.rounds=2", "algo.rl.compare=[evolved]"]
    whole = Launch(tmp_path / "whole", rounds, cache)
    assert whole.wait(1200) == 0, whole.console()[-3000:]
    broken = tmp_path / "broken"
    calls = len(calls_of(whole.run_dir))
    targets = [
        lambda place: place[0] == "search" and place[3] > calls // 8,
        lambda place: place[:3] == ("train", 1, 1),
        lambda place: place[:2] == ("search", 2) and place[3] > calls * 5 // 8,
        lambda place: place[:2] == ("train", 2),
    ]
    for reached in targets:
        launch = Launch(broken, [*rounds, "resume=auto"], cache)
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and launch.process.poll() is None and not reached(place_of(broken)):
            time.sleep(0.02)
        assert launch.process.poll() is None, launch.console()[-3000:]
        launch.kill()
    last = Launch(broken, [*rounds, "resume=auto"], cache)
    assert last.wait(900) == 0, last.console()[-3000:]
    assert stable(metrics_of(last.run_dir)) == stable(metrics_of(whole.run_dir))
    ours, theirs = calls_of(last.run_dir), calls_of(whole.run_dir)
    assert len({call["id"] for call in ours}) == len(ours)  # nothing was asked twice
    assert {call["id"]: call["reply"]["text"] for call in ours} == {c["id"]: c["reply"]["text"] for c in theirs}
    for number in ("001", "002"):
        paths = [run.run_dir / "rounds" / number / "evolved.jsonl" for run in (last, whole)]
        assert paths[0].read_text() == paths[1].read_text()
    rows = summary_of(last.run_dir)["iterations"]
    assert [row["round"] for row in rows] == [1, 2]
    assert (
        rows[1]["seeds"]["given"] == rows[0]["seeds"]["given"] + rows[0]["accepted"]
    )  # what was evolved is a seed now


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("arm", ["memory_free", "problem_centric"])
def test_ablations(arm: str, tmp_path: Path, cache: Path) -> None:
    launch = Launch(tmp_path, [f"experiment=benchevolver_{arm}", *SHORT[1:], "algo.rl.steps=0"], cache)
    assert launch.wait(1100) == 0, launch.console()[-3000:]
    (row,) = summary_of(launch.run_dir)["iterations"]
    assert row["accepted"] >= 5
    asked = [call["call"] for call in calls_of(launch.run_dir) if call["call"]["role"] == "proposer"]
    first = [one["messages"][0]["content"].split("\n")[0] for one in asked if one["key"][-1] in ("mutate", "problem")]
    assert set(first) == {"harder" if arm == "memory_free" else "other"}
    told = any("\nnot " in one["messages"][0]["content"] for one in asked)
    assert told is (arm == "problem_centric")


@pytest.mark.timeout(1800)
def test_adapters_on_a_policy_that_an_earlier_run_trained(tmp_path: Path, cache: Path) -> None:
    """LoRA, as at real sizes: the base stays, the adapters learn, and the servers sample what was trained."""
    short = [*SHORT, "algo.rl.compare=[]"]
    first = Launch(tmp_path / "first", short, cache)
    assert first.wait(900) == 0, first.console()[-3000:]
    model = first.run_dir / "policies" / "final"
    overrides = ["backbone=hf", f"backbone.path={model}", "backbone.prompts=compact", "algo.warmup.steps=0"]
    adapters = ["algo.rl.lora_rank=8", "algo.rl.lora_alpha=16", "algo.rl.lr=3e-3", "algo.rl.steps=6"]
    second = Launch(tmp_path / "second", [*short, *overrides, *adapters], cache)
    assert second.wait(900) == 0, second.console()[-3000:]
    before, after = (
        summary_of(run)["eval"][when] for run, when in ((first.run_dir, "after"), (second.run_dir, "before"))
    )
    assert abs(before["pass_at_1"] - after["pass_at_1"]) <= 0.15  # the same weights, merged in bfloat16
    lines = metrics_of(second.run_dir)
    assert all(line["logprob_pearson"] > 0.99 for line in lines)
    assert any(line["grad_norm"] > 0 for line in lines)
    weights = [path.stat().st_size for path in second.run_dir.glob("checkpoints/step_*/actor/optim*")]
    full = [path.stat().st_size for path in first.run_dir.glob("checkpoints/step_*/actor/optim*")]
    assert max(weights) < max(full) / 4
