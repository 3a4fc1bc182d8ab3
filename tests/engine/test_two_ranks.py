"""Two FSDP ranks and two vLLM servers do what one does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from test_session import assert_merged

from selfplay.engine.session import Session

HERE = Path(__file__).parent
TOLERANCE = 1e-4  # relative, of the gradient norm: two ranks add their sums in another order


@pytest.mark.slow
def test_two_ranks_give_the_gradient_norm_of_one(session: Session, initial_state: Path, tmp_path: Path) -> None:
    from two_ranks import steps

    session.load(initial_state, step=1)
    expected = steps(session)
    command = [sys.executable, str(HERE / "two_ranks.py"), "2", str(tmp_path)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=560, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "steps.json").read_text())
    for one, two in zip(expected, found, strict=True):
        assert one["rows"] == two["rows"]
        assert one["responses"] == two["responses"]
        assert two["grad_norm"] == pytest.approx(one["grad_norm"], rel=TOLERANCE)
        assert one["grad_norm"] > 0
        assert two["pearson"] > 0.99
    assert_merged(tmp_path / "state", tmp_path / "exported", tmp_path / "merged", shards=2)
