"""Runs as batch jobs of a real SLURM: over two nodes, preempted, at the time limit, in a chain, and a sweep."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from launch import SHORT, Launch, metrics_of, stable, summary_of
from slurm import Slurm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

PROJECT = Path(__file__).parent.parent.parent
LOGICAL_GPUS = "--num-gpus=1 --num-cpus=16 --object-store-memory=150000000"  # a rank's place on a node without GPUs


def submit(slurm: Slurm, folder: Path, *words: str, settings: tuple[str, ...] = SHORT, **variables: str) -> str:
    """Queue scripts/slurm/train.sbatch; the job's number."""
    given = {"SELFPLAY_PYTHON": sys.executable, **variables}
    exported = ",".join(["ALL", *(f"{key}={value}" for key, value in given.items())])
    return slurm.command(
        *("sbatch", "--parsable", f"--export={exported}", f"--output={folder}/job-%j.log", f"--chdir={PROJECT}"),
        *words,
        *(str(PROJECT / "scripts" / "slurm" / "train.sbatch"), f"output_dir={folder / 'outputs'}", *settings),
    ).strip()


def runs(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob("outputs/*/*/run.json") if not path.parent.name.startswith("."))


def log_of(folder: Path, job: str) -> str:
    return (folder / f"job-{job}.log").read_text()


def ended_well(slurm: Slurm, folder: Path, job: str, seconds: float = 900) -> None:
    assert slurm.wait_for_end(job, seconds)["JobState"] == "COMPLETED", log_of(folder, job)[-3000:]


def steps_of(folder: Path) -> int:
    found = runs(folder)
    return len(metrics_of(found[-1])) if found else 0


def only_run(folder: Path) -> Path:
    (run,) = runs(folder)
    return run


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> list[dict[str, Any]]:
    """The metrics of the same run without a break."""
    launch = Launch(tmp_path_factory.mktemp("whole"), SHORT, cache)
    assert launch.wait(900) == 0, launch.console()[-3000:]
    return stable(metrics_of(launch.run_dir))


def test_a_job_over_two_nodes(slurm: Slurm, tmp_path: Path, cache: Path) -> None:
    variables = {"SELFPLAY_CACHE_DIR": str(cache), "SELFPLAY_RAY_ARGS": LOGICAL_GPUS}
    job = submit(slurm, tmp_path, "--nodes=2", **variables)
    ended_well(slurm, tmp_path, job)
    assert "workers on n2" in log_of(tmp_path, job)
    settings = yaml.safe_load((only_run(tmp_path) / "config.yaml").read_text())
    assert settings["cluster"]["nodes"] == 2
    assert len(list((only_run(tmp_path) / "checkpoints").glob("step_000004/actor/model_world_size_2_rank_*.pt"))) == 2


def test_a_preempted_job_continues_and_nothing_is_lost(
    slurm: Slurm, tmp_path: Path, cache: Path, whole: list[dict[str, Any]]
) -> None:
    job = submit(slurm, tmp_path, "--nodes=1", "--nodelist=n1", "--exclusive", SELFPLAY_CACHE_DIR=str(cache))
    slurm.wait(lambda: steps_of(tmp_path) >= 2, 600)
    urgent = slurm.command(
        *("sbatch", "--parsable", "--partition=high", "--nodelist=n1", "--exclusive", "--output=/dev/null"),
        "--wrap=sleep 20",
    ).strip()
    slurm.wait(lambda: slurm.state(job) == "PENDING", 200)
    assert summary_of(only_run(tmp_path))["status"] == "interrupted"  # it was told, and saved
    slurm.wait_for_end(urgent, 120)
    slurm.start_again(job)
    ended_well(slurm, tmp_path, job)
    assert slurm.job(job)["Restarts"] == "1"
    assert stable(metrics_of(only_run(tmp_path))) == whole


def test_before_the_time_limit_a_job_saves_and_queues_again(
    slurm: Slurm, tmp_path: Path, cache: Path, whole: list[dict[str, Any]]
) -> None:
    job = submit(slurm, tmp_path, "--time=30", SELFPLAY_CACHE_DIR=str(cache))
    slurm.wait(lambda: slurm.state(job) == "RUNNING" and steps_of(tmp_path) >= 1, 300)
    slurm.command("scancel", "--batch", "--signal=USR1", job)  # what SLURM sends when the time comes
    slurm.start_again(job, 200)
    ended_well(slurm, tmp_path, job)
    assert "time limit or preemption: the run saves" in log_of(tmp_path, job)
    assert stable(metrics_of(only_run(tmp_path))) == whole


def test_a_lost_worker_puts_the_job_back_into_the_queue(slurm: Slurm, tmp_path: Path, cache: Path) -> None:
    job = submit(slurm, tmp_path, SELFPLAY_CACHE_DIR=str(cache), SELFPLAY_MAX_RESTARTS="1")
    slurm.wait(lambda: steps_of(tmp_path) >= 1, 600)
    subprocess.run(["pkill", "-KILL", "-f", "VLLM::EngineCore"], check=True)
    slurm.start_again(job, 200)
    assert "exit code 4" in log_of(tmp_path, job)
    ended_well(slurm, tmp_path, job)
    assert summary_of(only_run(tmp_path))["status"] == "finished"


def test_a_chain_does_one_step_a_job(slurm: Slurm, tmp_path: Path, cache: Path, whole: list[dict[str, Any]]) -> None:
    given = {"SELFPLAY_PYTHON": sys.executable, "SELFPLAY_CACHE_DIR": str(cache), "SELFPLAY_NAME": "chained"}
    settings = [f"output_dir={tmp_path / 'outputs'}", *SHORT, "stop_after=2"]
    words = [str(PROJECT / "scripts/slurm/chain.sh"), "3", f"--output={tmp_path}/job-%j.log", f"--chdir={PROJECT}"]
    done = subprocess.run(
        [*words, "--", *settings], env=slurm.environment | given, capture_output=True, text=True, timeout=60, check=True
    )
    first, second, third = done.stdout.split()
    ended_well(slurm, tmp_path, first)
    assert steps_of(tmp_path) == 2
    ended_well(slurm, tmp_path, second)
    assert summary_of(only_run(tmp_path))["status"] == "finished"
    ended_well(slurm, tmp_path, third)
    assert "nothing to do: the run has finished" in log_of(tmp_path, third)
    assert stable(metrics_of(only_run(tmp_path))) == whole


def test_a_sweep_is_an_array_and_a_job_of_it_that_makes_way_continues(
    slurm: Slurm, tmp_path: Path, cache: Path, whole: list[dict[str, Any]]
) -> None:
    given = {"SELFPLAY_CACHE_DIR": str(cache)}
    settings = [*SHORT[:-1], "seed=3,4", f"output_dir={tmp_path / 'outputs'}"]
    launcher = ["hydra/launcher=submitit_slurm", "hydra.launcher.timeout_min=30", "hydra.launcher.cpus_per_task=2"]
    again = ["hydra.launcher.max_num_timeout=3", "hydra.launcher.array_parallelism=1"]
    command = [sys.executable, "-m", "selfplay.train", "--multirun", *settings, *launcher, *again]
    with (tmp_path / "sweep.txt").open("w") as out:
        sweep = subprocess.Popen(
            command, env=slurm.environment | given, stdout=out, stderr=subprocess.STDOUT, cwd=PROJECT
        )
    slurm.wait(lambda: steps_of(tmp_path) >= 1, 600)
    (running,) = {line.split("_")[0] for line in slurm.command("squeue", "-h", "-t", "R", "-o", "%i").split()}
    slurm.command("scancel", "--signal=USR2", f"{running}_0")  # what submitit has SLURM send when time is short
    slurm.wait(lambda: summary_of(runs(tmp_path)[0])["status"] == "interrupted", 200)
    slurm.start_again(f"{running}_0", 200)
    assert sweep.wait(1200) == 0, (tmp_path / "sweep.txt").read_text()
    found = {json.loads((run / "run.json").read_text())["seed"]: run for run in runs(tmp_path)}
    assert sorted(found) == [3, 4]
    assert all(summary_of(run)["status"] == "finished" for run in found.values())
    assert stable(metrics_of(found[3])) == whole
