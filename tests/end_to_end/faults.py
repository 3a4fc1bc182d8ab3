"""The faults of the chaos test: each does its harm to a run once, and undoes what it must not leave."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from launch import Launch

from selfplay.runs.files import write_atomic

KINDS = {
    "driver": "-m selfplay.train",
    "raylet": "raylet/raylet",
    "GCS": "gcs_server",
    "rank": "ray::WorkerDict",
    "vLLM server": "ray::vLLMHttpServer",
    "vLLM engine": "VLLM::EngineCore",
    "agent loop": "ray::AgentLoopWorker",
    "queue controller": "ray::TransferQueueController",
    "queue storage": "ray::SimpleStorageUnit",
    "guard": "selfplay.engine.reaper",
}


def processes(launch: Launch, kind: str) -> list[psutil.Process]:
    if kind == "driver":
        return [psutil.Process(launch.process.pid)]
    return launch.workers(KINDS[kind])


def kill(launch: Launch, rng: random.Random, kind: str) -> bool:
    """SIGKILL to a process of the kind; whether there was one."""
    with contextlib.suppress(psutil.Error):
        found = processes(launch, kind)
        if found:
            rng.choice(found).kill()
            return True
    return False


def pause(launch: Launch, rng: random.Random, kind: str) -> bool:
    """SIGSTOP, and SIGCONT up to three seconds later."""
    with contextlib.suppress(psutil.Error):
        found = processes(launch, kind)
        if found:
            victim = rng.choice(found)
            victim.suspend()
            time.sleep(rng.uniform(0.3, 3.0))
            victim.resume()
            return True
    return False


def no_descriptors(launch: Launch, rng: random.Random) -> bool:
    """The driver can open no more files for up to three seconds."""
    pid = launch.process.pid
    with contextlib.suppress(OSError, psutil.Error):
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (psutil.Process(pid).num_fds(), before[1]))
        time.sleep(rng.uniform(0.5, 3.0))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        return True
    return False


def full_disk(folder: Path, rng: random.Random) -> bool:
    """The run's disk is full for up to four seconds; `folder` lies on a small one of its own."""
    ballast = folder / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 65536)
    time.sleep(rng.uniform(0.5, 4.0))
    ballast.unlink()
    return True


def read_only_checkpoints(run_dir: Path, rng: random.Random) -> bool:
    """Nothing can be written to the checkpoints for up to four seconds."""
    folder = str(run_dir / "checkpoints")
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        time.sleep(rng.uniform(0.5, 4.0))
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
    return True


def skew_clock(clock: Path, rng: random.Random) -> bool:
    """The wall clock of all the run's processes jumps, by up to a day either way."""
    write_atomic(clock, f"{rng.choice((-1, 1)) * rng.uniform(1, 86400):.0f}\n")
    return True


def build_clock(clock: Path) -> bool:
    """The library that `clock_environment` loads; False without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return False
    source, library = Path(__file__).with_name("clock.c"), clock.with_suffix(".so")
    subprocess.run([compiler, "-O2", "-fPIC", "-shared", "-o", str(library), str(source), "-ldl"], check=True)
    return True


def clock_environment(clock: Path) -> dict[str, str]:
    """What lets `skew_clock` reach a run; the monotonic clock, as in a real jump, goes on."""
    return {
        "LD_PRELOAD": str(clock.with_suffix(".so")),
        "SKEW_FILE": str(clock),
    }


# ---------------------------------------------------------------- damage to files, while no run is at work


def truncate(path: Path, rng: random.Random) -> None:
    os.truncate(path, rng.randrange(max(path.stat().st_size, 1)))


def flip(path: Path, rng: random.Random) -> None:
    """One bit of one byte."""
    content = bytearray(path.read_bytes())
    if content:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(content))


def damage(run_dir: Path, what: str, harm: Callable[[Path, random.Random], None], rng: random.Random) -> bool:
    """Truncated or flipped: a file of the last checkpoint, its pool, the journal of metrics, or the summary."""
    last = max(run_dir.glob("checkpoints/step_*"), default=None)
    files = {
        "checkpoint": sorted(path for path in last.rglob("*") if path.is_file()) if last else [],
        "pool": sorted([*run_dir.glob("pool/*"), *(last.glob("pool/*") if last else [])]),
        "journal": [run_dir / "metrics.jsonl"],
        "summary": [run_dir / "summary.json"],
    }[what]
    there = [path for path in files if path.is_file() and path.stat().st_size]
    if not there:
        return False
    harm(rng.choice(there), rng)
    return True


@contextmanager
def small_disk(folder: Path, mib: int) -> Iterator[None]:
    """A file system of its own at `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def send(launch: Launch, number: signal.Signals) -> bool:
    """A stop request."""
    launch.process.send_signal(number)
    return True
