"""A run whose processes die, hang or are stopped: the right message and exit code, nothing left, and a resume."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from launch import SHORT, Launch, metrics_of, nodes_of, remains, summary_of

pytestmark = pytest.mark.slow


def resume(tmp_path: Path, cache: Path) -> Path:
    """Resume the run in `tmp_path` to its end; returns its directory."""
    launch = Launch(tmp_path, [*SHORT, "resume=auto"], cache)
    assert launch.wait() == 0, launch.console()[-3000:]
    steps = [line["step"] for line in metrics_of(launch.run_dir)]
    assert steps == [1, 2, 3, 4]
    nodes = nodes_of(launch.run_dir)
    assert len(nodes) == len(set(nodes)) == metrics_of(launch.run_dir)[-1]["pool/size"]
    return launch.run_dir


@pytest.mark.parametrize("victim", ["ray::WorkerDict", "VLLM::EngineCore", "ray::AgentLoopWorker"])
def test_a_lost_worker_ends_the_run_with_code_4(victim: str, tmp_path: Path, cache: Path) -> None:
    launch = Launch(tmp_path, SHORT, cache)
    launch.wait_for_step(1)
    time.sleep(0.5)  # in the middle of the second step
    victims = launch.workers(victim)
    assert victims, f"no process by the name {victim}"
    victims[0].kill()
    assert launch.wait(120) == 4, launch.console()[-3000:]
    assert "died" in launch.console()
    assert summary_of(launch.run_dir)["status"] == "worker_lost"
    assert remains(launch.run_dir) == []
    resume(tmp_path, cache)


def test_a_hang_ends_with_code_3_and_says_where(tmp_path: Path, cache: Path) -> None:
    launch = Launch(tmp_path, [*SHORT, "cluster.watchdog.stall_s=20"], cache)
    launch.wait_for_step(1)
    launch.workers("ray::WorkerDict")[0].send_signal(signal.SIGSTOP)
    assert launch.wait(200) == 3, launch.console()[-3000:]
    run_dir = launch.run_dir
    assert "no progress for" in launch.console()
    dump = next((run_dir / "logs").glob("stall-*.txt")).read_text()
    assert "WorkerDict" in dump
    assert summary_of(run_dir)["status"] == "stalled"
    assert remains(run_dir) == []
    resume(tmp_path, cache)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_request_saves_and_ends_with_code_130(number: signal.Signals, tmp_path: Path, cache: Path) -> None:
    launch = Launch(tmp_path, SHORT, cache)
    launch.wait_for_step(1)
    launch.process.send_signal(number)
    assert launch.wait(120) == 130, launch.console()[-3000:]
    assert summary_of(launch.run_dir)["status"] == "interrupted"
    assert remains(launch.run_dir) == []
    resume(tmp_path, cache)
