"""The command itself, on the real stack: an unbroken run, and broken ones that are resumed to the same end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from launch import SHORT, Launch, metrics_of, newest_run, nodes_of, remains, stable, summary_of, weights_of


@pytest.fixture(scope="module")
def frozen_at_step_2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the unbroken run's folder is copied to in the middle of its third step: what a kill -9 would leave."""
    return tmp_path_factory.mktemp("frozen")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory, frozen_at_step_2: Path, cache: Path) -> Path:
    """The directory of a finished short run."""
    launch = Launch(tmp_path_factory.mktemp("unbroken"), SHORT, cache)
    launch.wait_for_step(2)
    with launch.frozen():
        shutil.copytree(launch.folder, frozen_at_step_2, dirs_exist_ok=True)
    assert launch.wait() == 0, launch.console()[-3000:]
    assert "held-out pass@1 after" in launch.console()
    return launch.run_dir


def test_a_run_leaves_everything_a_reader_needs(unbroken: Path) -> None:
    summary = summary_of(unbroken)
    assert summary["status"] == "finished"
    assert (summary["seed"], summary["steps"]) == (3, 4)
    for when in ("before", "after"):
        score = summary["eval"][when]
        low, high = score["interval"]
        assert low <= score["pass_at_1"] <= high
        assert score["n"] >= 2 * 30
    assert summary["throughput"]["tokens_per_s"] > 0
    assert {"generate", "log_probs", "update", "sync"} <= summary["timing_s"].keys()
    lines = metrics_of(unbroken)
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    for line in lines:
        assert line["logprob_pearson"] > 0.99
        assert line["balance/t_q"] > 0
        assert line["rows"] >= 6
    rows = [json.loads(text) for text in (unbroken / "rollouts" / "step_000002.jsonl").read_text().splitlines()]
    assert len(rows) == lines[1]["rows"]
    assert {row["role"] for row in rows} >= {"proposer"}
    assert (unbroken / "config.yaml").read_text()
    assert len(nodes_of(unbroken)) == lines[-1]["pool/size"]
    assert remains(unbroken) == []


def same_end(one: Path, other: Path) -> None:
    """Equal rewards and counts in every step, bit-equal weights, the same pool and scores."""
    assert stable(metrics_of(one)) == stable(metrics_of(other))
    expected, found = weights_of(one), weights_of(other)
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert nodes_of(one) == nodes_of(other)
    assert summary_of(one)["eval"] == summary_of(other)["eval"]


def test_what_a_kill_leaves_is_resumed_to_the_same_end(unbroken: Path, frozen_at_step_2: Path, cache: Path) -> None:
    """The copy is that of a driver stopped in its third step; the steps after it are a second launch of one seed."""
    left = newest_run(frozen_at_step_2)
    assert summary_of(left)["status"] == "running"
    assert len(metrics_of(left)) == 2
    launch = Launch(frozen_at_step_2, [*SHORT, "resume=auto"], cache)
    assert launch.wait() == 0, launch.console()[-3000:]
    assert launch.run_dir == left
    same_end(unbroken, left)


@pytest.mark.slow
def test_two_launches_agree_and_so_does_one_that_was_killed(unbroken: Path, tmp_path: Path, cache: Path) -> None:
    first = Launch(tmp_path, SHORT, cache)
    first.wait_for_step(2)
    first.kill()  # somewhere in step 3
    killed = first.run_dir
    assert summary_of(killed)["status"] == "running"
    assert stable(metrics_of(killed)[:2]) == stable(metrics_of(unbroken)[:2])
    assert remains(killed) == []
    second = Launch(tmp_path, [*SHORT, "resume=auto"], cache)
    assert second.wait() == 0, second.console()[-3000:]
    assert second.run_dir == killed
    same_end(unbroken, killed)
