"""The warm-up's rounds: what they leave, and kills in each of their stages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from launch import Launch, metrics_of, nodes_of, runs, stable, summary_of, weights_in, weights_of

pytestmark = pytest.mark.slow

ROUNDS = (
    "algo.steps=3",
    "algo.seeds_per_step=8",  # enough that every round verifies something
    "algo.proposals_per_seed=2",
    "algo.attempts_per_spec=8",
    "algo.warmup.rounds=2",
    "algo.warmup.cache=false",
    "algo.warmup.distill.steps=3",
    "algo.warmup.distill.batch_size=2",
    "algo.warmup.distill.eval_samples=2",
    "algo.warmup.distill.stop_on_drop=false",
    "algo.eval.samples=2",
    "seed=3",
)
STAGES = (("demos", 0), ("collect", 1), ("distill", 1), ("collect", 2), ("train", 2))


def position_of(folder: Path) -> dict[str, Any]:
    """Of the newest checkpoint; empty while there is none, or while it is being replaced."""
    try:
        state = max(runs(folder)[-1].glob("checkpoints/step_*")) / "state.json"
        return dict(json.loads(state.read_text())["position"])
    except (OSError, ValueError, IndexError):
        return {}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    launch = Launch(tmp_path_factory.mktemp("rounds"), ROUNDS, cache)
    assert launch.wait(900) == 0, launch.console()[-3000:]
    return launch.run_dir


@pytest.mark.timeout(1200)
def test_each_round_has_its_row(unbroken: Path) -> None:
    table = summary_of(unbroken)["warmup"]
    assert [row["round"] for row in table] == [0, 1, 2]
    for row in table:
        assert 0 <= row["q_valid"] <= 1
        assert set(row["pass_at_1"]) == {"heldout"}
        assert 0 < row["kept"] <= row["collected"]
        assert row["used"]
    kept = [json.loads(line) for line in (unbroken / "warmup" / "round_1.jsonl").read_text().splitlines()]
    assert len(kept) == table[1]["collected"]
    assert {item["step"] for item in kept} <= {0, 1, 2}
    assert not (unbroken / "warmup" / "states").exists()


@pytest.mark.timeout(3600)
def test_a_run_killed_in_every_stage_ends_as_if_unbroken(unbroken: Path, tmp_path: Path, cache: Path) -> None:
    for stage, number in STAGES:
        launch = Launch(tmp_path, [*ROUNDS, "resume=auto"], cache)

        def there(stage: str = stage, number: int = number) -> bool:
            place = position_of(tmp_path)
            done = place.get("step" if stage == "train" else "done", 0)
            return (place.get("stage"), place.get("round")) == (stage, number) and done >= 1

        launch.wait_until(there, 900)
        launch.kill()
    last = Launch(tmp_path, [*ROUNDS, "resume=auto"], cache)
    assert last.wait(900) == 0, last.console()[-3000:]
    assert len(runs(tmp_path)) == 1
    again = last.run_dir
    assert stable(metrics_of(again)) == stable(metrics_of(unbroken))
    assert nodes_of(again) == nodes_of(unbroken)
    mine, theirs = weights_of(again), weights_of(unbroken)
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    drop = ("seconds",)
    rows = [
        [{k: v for k, v in row.items() if k not in drop} for row in summary_of(d)["warmup"]] for d in (again, unbroken)
    ]
    assert rows[0] == rows[1]


@pytest.mark.timeout(1800)
def test_a_round_that_harms_is_taken_back(tmp_path: Path, cache: Path) -> None:
    """It is the last, its row says so, and what follows starts from the round before it: here, bit for bit."""
    harmful = [*ROUNDS, "algo.warmup.cache=true", "algo.warmup.distill.stop_on_drop=true"]
    harmful += ["algo.warmup.distill.lr=0.05", "algo.steps=1", "algo.optim.lr=0"]
    launch = Launch(tmp_path, harmful, cache)
    assert launch.wait(1200) == 0, launch.console()[-3000:]
    table = summary_of(launch.run_dir)["warmup"]
    assert [row["used"] for row in table] == [True, False]
    assert table[1]["q_valid"] < table[0]["q_valid"]
    kept = {path: note_of(path)["rounds"] for path in (cache / "warmup").iterdir()}
    first = next(path for path, rounds in kept.items() if rounds == table[:1])
    mine, theirs = weights_of(launch.run_dir), weights_in(first)
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


def note_of(state: Path) -> dict[str, Any]:
    return dict(json.loads((state / "note.json").read_text()))
