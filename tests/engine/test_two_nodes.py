"""Two Ray nodes on this machine: where things are placed, and how the loss of one shows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
LIMIT_S = 30.0  # from the loss to the error


def outcome_of(phase: str, what: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "lost_node.py"), phase, what, str(folder)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=560, check=False)
    assert (folder / "outcome.json").exists(), done.stderr[-3000:]
    return dict(json.loads((folder / "outcome.json").read_text()))


def test_each_node_has_a_rank_and_a_server_and_both_are_in_step(tmp_path: Path) -> None:
    outcome = outcome_of("", "", tmp_path)
    assert outcome["finished"]
    for titles in outcome["workers"]:
        assert sum("WorkerDict" in title for title in titles) == 1
        assert any("vLLMHttpServer" in title for title in titles)
    servers = [title for titles in outcome["workers"] for title in titles if "vLLMHttpServer" in title]
    assert len(servers) == 3  # a replica beside each rank, and the frozen model's
    assert outcome["gap"] < 1e-4
    assert len(outcome["frozen"]) == 1


@pytest.mark.parametrize("what", ["raylet", "whole"])
@pytest.mark.parametrize("phase", ["generate", "update"])
def test_a_lost_node_is_an_error_within_half_a_minute(phase: str, what: str, tmp_path: Path) -> None:
    outcome = outcome_of(phase, what, tmp_path)
    assert outcome["error"] == "WorkerLost", outcome
    assert outcome["after_s"] < LIMIT_S
