"""Two FSDP ranks and two vLLM servers do what one does, and go on where one ended; and the reverse."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from test_session import assert_merged

from selfplay.engine.session import Session
from selfplay.engine.shards import joined, read, shards

HERE = Path(__file__).parent
TOLERANCE = 1e-4  # relative, of the gradient norm: two ranks add their sums in another order


def whole(folder: Path) -> dict[str, torch.Tensor]:
    """Weights and moments of a saved state, from all its ranks."""
    models = [read(path) for path in shards(folder)]
    moments = [read(path)["state"] for path in shards(folder, "optim")]
    found = {name: joined(name, [state[name] for state in models]) for name in models[0]}
    for index, values in moments[0].items():
        found |= {f"{index}.{key}": joined(key, [state[index][key] for state in moments]) for key in values}
    return found


def assert_same_state(one: Path, other: Path) -> None:
    first, second = whole(one), whole(other)
    assert first.keys() == second.keys()
    assert any(key.endswith("exp_avg_sq") for key in first)
    assert all(torch.equal(first[key], second[key]) for key in first)


@pytest.mark.slow
def test_two_ranks_do_what_one_does(session: Session, initial_state: Path, tmp_path: Path) -> None:
    from two_ranks import steps

    session.load(initial_state, step=1)
    expected = steps(session)
    session.save(tmp_path / "one")
    further = steps(session)
    command = [sys.executable, str(HERE / "two_ranks.py"), "2", str(tmp_path), str(tmp_path / "one")]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=560, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert_same_steps(expected, json.loads((tmp_path / "steps.json").read_text()))
    assert_merged(tmp_path / "state", tmp_path / "exported", tmp_path / "merged", shards=2)

    assert len(shards(tmp_path / "taken_over")) == 2
    assert_same_state(tmp_path / "one", tmp_path / "taken_over")
    assert_same_steps(further, json.loads((tmp_path / "further.json").read_text()))

    session.load(tmp_path / "taken_over", step=4)  # two ranks' files, one rank
    session.save(tmp_path / "back")
    assert len(shards(tmp_path / "back")) == 1
    assert_same_state(tmp_path / "one", tmp_path / "back")
    assert steps(session) == further


def assert_same_steps(expected: list[dict[str, Any]], found: list[dict[str, Any]]) -> None:
    for one, two in zip(expected, found, strict=True):
        assert one["rows"] == two["rows"]
        assert one["responses"] == two["responses"]
        assert two["grad_norm"] == pytest.approx(one["grad_norm"], rel=TOLERANCE)
        assert one["grad_norm"] > 0
        assert two["pearson"] > 0.99
