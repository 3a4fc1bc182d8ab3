"""A training run over two Ray nodes that loses one: what it says, and that it goes on with what is left."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from launch import SHORT, Launch, metrics_of, nodes_of, summary_of

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))

from nodes import two_nodes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("whole", [False, True])
def test_a_run_that_loses_a_node_goes_on_with_what_is_left(whole: bool, tmp_path: Path, cache: Path) -> None:
    with two_nodes() as nodes:
        placed = ["cluster.nodes=2", f"cluster.ray_address={nodes.address}"]
        launch = Launch(tmp_path, [*SHORT, *placed], cache)
        launch.wait_for_step(1)
        nodes.lose_second(whole)
        lost_at = time.monotonic()
        assert launch.wait(120) == 4, launch.console()[-3000:]
        assert time.monotonic() - lost_at < 45  # the error within 30 s, and the ending
    assert "1 of 2 Ray nodes lost" in launch.console() or "died" in launch.console()
    assert summary_of(launch.run_dir)["status"] == "worker_lost"
    alone = Launch(tmp_path, [f"resume={launch.run_dir}", "cluster.nodes=1", "cluster.ray_address=''"], cache)
    assert alone.wait(400) == 0, alone.console()[-3000:]
    assert [line["step"] for line in metrics_of(launch.run_dir)] == [1, 2, 3, 4]
    pool = nodes_of(launch.run_dir)
    assert len(pool) == len(set(pool)) == metrics_of(launch.run_dir)[-1]["pool/size"]
