"""A writer is killed with SIGKILL again and again; whatever is left must open and be what was committed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from selfplay.runs.checkpoints import CheckpointStore
from selfplay.runs.files import RunDirError
from selfplay.runs.metrics import MetricsLog, read_metrics
from selfplay.runs.rollouts import read_rollouts
from selfplay.runs.rundir import create_run_dir, open_run_dir, unfinished_runs
from selfplay.runs.summary import read_summary

# A run without a model: continues the newest unfinished run, or makes one, and counts. The checkpoint's file holds the
# step many times over, so that a mixture of two checkpoints would show.
WRITER = """
import sys
from pathlib import Path
from selfplay.runs.checkpoints import CheckpointStore
from selfplay.runs.metrics import MetricsLog
from selfplay.runs.resume import prepare_run_dir
from selfplay.runs.rollouts import Rollout, RolloutWriter
from selfplay.runs.summary import Summary, write_summary

run = prepare_run_dir(resume="auto", output_dir=Path(sys.argv[1]), algo="toy", name="crash", seed=3, steps=10**6,
                      config_yaml="seed: 3\\n", overrides=["seed=3"])
store = CheckpointStore(run.checkpoints, keep=2)
metrics, rollouts = MetricsLog(run.metrics), RolloutWriter(run.rollouts)
latest = store.latest()
step = latest.step if latest else 0
metrics.truncate_after(step)
rollouts.truncate_after(step)
print("up", flush=True)
while True:
    step += 1
    metrics.append(step, {"reward": step / 7})
    rollouts.write(step, [Rollout("k", "solver", "g", "p", "r" * 500, "verified", 1.0)])
    write_summary(run.summary, Summary(seed=3, steps=step))
    with store.stage(step) as folder:
        (folder / "weights").write_text(f"{step}\\n" * 20000)
"""


def start_writer(outputs: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(outputs)], stdout=subprocess.PIPE, text=True)


def test_a_directory_opens_after_kills_at_any_time(tmp_path: Path) -> None:
    moments = random.Random(5)
    reached = [0]
    for _ in range(12):
        writer = start_writer(tmp_path)
        assert writer.stdout is not None
        if moments.random() < 0.75:  # otherwise the kill falls into creation, recovery or truncation
            assert writer.stdout.readline() == "up\n"
            time.sleep(moments.uniform(0.0, 0.08))
        else:
            time.sleep(moments.uniform(0.05, 0.25))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        runs = unfinished_runs(tmp_path, "toy", "crash", 3)
        if not runs:
            continue
        with open_run_dir(runs[0]) as run:
            store = CheckpointStore(run.checkpoints, keep=2)
            latest = store.latest()
            step = latest.step if latest else 0
            assert step >= reached[-1], "a committed checkpoint was lost"
            reached.append(step)
            assert len(store.all()) <= 2
            for checkpoint in store.all():
                assert set((checkpoint.path / "weights").read_text().split()) == {str(checkpoint.step)}
            if run.metrics.exists():
                MetricsLog(run.metrics).close()
                assert [record["step"] for record in read_metrics(run.metrics)][:step] == list(range(1, step + 1))
            for path in run.rollouts.glob("step_*.jsonl"):
                assert len(list(read_rollouts(path))) == 1
            assert read_summary(run.summary) is not None
            assert not [entry for entry in run.checkpoints.iterdir() if entry.name.startswith(".")]
    assert len(list((tmp_path / "toy").glob("2*-crash*"))) == 1, "resume=auto made a second directory"
    assert reached[-1] > 0, "no writer lived long enough to commit anything: the test shows nothing"


def test_a_second_process_is_kept_out_until_the_first_is_dead(tmp_path: Path) -> None:
    writer = start_writer(tmp_path)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "up\n"
    path = unfinished_runs(tmp_path, "toy", "crash", 3)[0]
    with pytest.raises(RunDirError, match=rf"in use by another process \(pid {writer.pid}\)"):
        open_run_dir(path)
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    open_run_dir(path).close()


def test_what_a_killed_creation_left_is_swept_unless_held(tmp_path: Path) -> None:
    parent = tmp_path / "toy"
    (parent / ".creating-20200101-000000-1").mkdir(parents=True)
    (parent / ".creating-20200101-000000-1" / "config.yaml").write_text("seed: 0\n")
    with create_run_dir(tmp_path, "toy", "a", 0, "seed: 0\n", []) as run:
        assert [entry.name for entry in parent.iterdir()] == [run.path.name]
