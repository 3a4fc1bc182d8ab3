"""A few runs under fire; `python tests/end_to_end/chaos.py --faults 200` is the whole of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
@pytest.mark.timeout(3000)
def test_runs_under_fire_lose_nothing(tmp_path: Path) -> None:
    chaos = [sys.executable, str(Path(__file__).with_name("chaos.py"))]
    command = [*chaos, "--faults", "20", "--seed", "1", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2900, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "faults injected: 20" in done.stdout
