"""The command itself, on the real stack: an unbroken run, and one that is killed and resumed to the same end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from launch import SHORT, Launch, metrics_of, nodes_of, remains, stable, summary_of, weights_of


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """The directory of a finished short run."""
    launch = Launch(tmp_path_factory.mktemp("unbroken"), SHORT, cache)
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


def test_killed_and_resumed_ends_as_if_unbroken(unbroken: Path, tmp_path: Path, cache: Path) -> None:
    """Two launches of one seed agree too: the killed run's first steps are compared line by line."""
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
    assert stable(metrics_of(killed)) == stable(metrics_of(unbroken))
    expected, found = weights_of(unbroken), weights_of(killed)
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert nodes_of(killed) == nodes_of(unbroken)
    assert summary_of(killed)["eval"] == summary_of(unbroken)["eval"]
