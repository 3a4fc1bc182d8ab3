"""Short runs of `selfplay.train`, watched from outside: start-up, what drivers add to a step, memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psutil

HERE = Path(__file__).parent
MIB = 2**20
PHASES = ("generate", "log_probs", "ref_log_probs", "advantages", "update", "sync")
SHORT = {
    "ancora": (
        "algo.steps=8",
        "algo.warmup.steps=20",
        "algo.warmup.n_demos=2000",
        "algo.warmup.rounds=0",
        "algo.eval.samples=2",
    ),
    "anchorloop": (
        "algo.iterations=1",
        "algo.curriculum.steps=4",
        "algo.pool.tasks=24",
        "algo.executor.batches=4",
        "algo.warmup.steps=150",
        "algo.eval.tasks=8",
        "algo.eval.samples=2",
    ),
    "benchevolver": (
        "algo.evolution.steps=1",
        "algo.rl.steps=8",
        "algo.rl.compare=[seed]",
        "algo.warmup.steps=60",
        "algo.eval.tasks=12",
        "algo.eval.samples=2",
    ),
}
MILESTONES = (  # what, as bench_probe stamps it; True: its end
    ("settings checked", "settings", True),
    ("Ray up", "ray", True),
    ("queue's package imported", "import queue", True),
    ("queue up", "the queue is up", True),
    ("verl and the trainer imported", "import trainer", True),
    ("ranks have their models", "servers", False),
    ("servers up", "servers", True),
    ("first weights sent", "weights", True),
    ("agent loops up", "agent loops", True),
    ("session ready", "session start", True),
    ("first request answered", "first answer", True),
)
KINDS = (  # part of the command line -> kind of process; the first that fits
    ("VLLM::EngineCore", "vLLM engine core"),
    ("ray::vLLMHttpServer", "vLLM server"),
    ("ray::WorkerDict", "rank"),
    ("ray::PolicyWorker", "rank"),
    ("ray::AgentLoopWorker", "agent loops"),
    ("ray::SimpleStorageUnit", "queue storage"),
    ("ray::TransferQueueController", "queue controller"),
    ("ray::OnlyServer", "balancer"),
    ("ray::RequestLoadBalancer", "balancer"),
    ("ray::IDLE", "idle Ray worker"),
    ("ray::", "other Ray worker"),
    ("raylet/raylet", "raylet"),
    ("gcs_server", "gcs"),
    ("selfplay.engine.reaper", "guard"),
    ("bench_probe", "driver"),
)


@dataclass
class Memory:
    """Peaks in MiB. `pss` shares what is shared, so its sum over processes is what the run takes; `rss` does not."""

    rss: dict[str, float] = field(default_factory=dict)
    pss: dict[str, float] = field(default_factory=dict)
    processes: dict[str, int] = field(default_factory=dict)  # most at one time
    total_pss: float = 0.0

    def add(self, sample: Sequence[tuple[str, float, float]]) -> None:
        """Kind, rss and pss of every process at one moment; those of a kind are summed."""
        for column, best in ((1, self.rss), (2, self.pss)):
            for kind, value in _sums((row[0], row[column]) for row in sample).items():
                best[kind] = max(best.get(kind, 0.0), value)
        for kind, count in _sums((row[0], 1.0) for row in sample).items():
            self.processes[kind] = max(self.processes.get(kind, 0), int(count))
        self.total_pss = max(self.total_pss, sum(row[2] for row in sample))


def _sums(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    out: dict[str, float] = {}
    for kind, value in pairs:
        out[kind] = out.get(kind, 0.0) + value
    return out


@dataclass
class Run:
    algo: str
    seconds: float
    stamps: list[dict[str, Any]]
    metrics: list[dict[str, Any]]
    summary: dict[str, Any]
    memory: Memory


def kind_of(command: str) -> str:
    return next((kind for part, kind in KINDS if part in command), "other")


def sample_memory(root: psutil.Process) -> list[tuple[str, float, float]]:
    """Kind, rss and pss in MiB of a process and all its descendants."""
    rows: list[tuple[str, float, float]] = []
    try:
        processes = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return rows
    for process in processes:
        try:
            info = process.memory_full_info()
            rows.append((kind_of(" ".join(process.cmdline())), info.rss / MIB, info.pss / MIB))
        except psutil.Error:  # it ended meanwhile
            continue
    return rows


def run(algo: str, folder: Path, timeout: float = 480, sample_s: float = 5.0) -> Run:
    """A short run. Raises RuntimeError with the end of what it printed when it fails or takes too long."""
    folder.mkdir(parents=True)
    stamps, console = folder / "stamps.jsonl", folder / "console.txt"
    command = [sys.executable, str(HERE / "bench_probe.py"), str(stamps), f"algo={algo}", "seed=3"]
    command += [f"output_dir={folder / 'outputs'}", *SHORT[algo]]
    environment = os.environ | {"PYTHONPATH": str(HERE.parent)}
    memory, began = Memory(), time.monotonic()
    with console.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            memory.add(sample_memory(watched))
            if time.monotonic() - began > timeout:
                process.terminate()
            time.sleep(sample_s)
    if process.returncode:
        raise RuntimeError(f"the run of {algo} ended with {process.returncode}:\n{console.read_text()[-3000:]}")
    (run_dir,) = (path for path in folder.glob("outputs/*/*") if not path.name.startswith("."))
    return Run(
        algo,
        time.monotonic() - began,
        [json.loads(line) for line in stamps.read_text().splitlines()],
        [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()],
        json.loads((run_dir / "summary.json").read_text()),
        memory,
    )


def milestones(stamps: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Seconds from the process's start to each milestone of the start-up; raises ValueError where one is missing."""
    found: dict[str, float] = {}
    for label, what, end in MILESTONES:
        times = [stamp["t"] for stamp in stamps if stamp["what"] == what and stamp["end"] == end]
        if not times:
            raise ValueError(f"the run never came to {label!r}")
        found[label] = times[0]
    return found


@dataclass(frozen=True)
class Overhead:
    """Medians over the steps of a run, in seconds. `wall` is from the end of one step to the end of the next."""

    steps: int
    wall: float
    phases: float  # the engine's: generation with verification, log-probs, advantages, update, sync
    glue: float  # inside `Session.step` and in no phase
    saving: float  # `Session.save`: weights and optimizer
    driver: float  # the rest: the algorithm's own work, metrics, rollouts, checkpoint files


def overhead(stamps: Sequence[dict[str, Any]], metrics: Sequence[dict[str, Any]]) -> Overhead:
    """What a step takes outside the engine's phases; the first step is left out, as are steps before which the
    driver did other sampling (an evaluation, a pool). Raises ValueError when no step is left."""
    rows, waited, index = [], False, -1
    ended: float | None = None
    began = saving = save_began = 0.0
    for stamp in stamps:
        what, end, t = stamp["what"], stamp["end"], stamp["t"]
        if what in ("session run_all", "session sft"):
            waited = True
        elif what == "session save":
            save_began, saving = (save_began, saving + t - save_began) if end else (t, saving)
        elif what == "session step" and not end:
            began = t
        elif what == "session step":
            index += 1
            if ended is not None and not waited:
                line = metrics[index]
                phases = sum(line.get(f"timing/{phase}", 0.0) for phase in PHASES)
                rows.append((t - ended, phases, t - began - phases, saving, began - ended - saving))
            ended, waited, saving = t, False, 0.0
    if not rows:
        raise ValueError("no two steps followed each other")
    return Overhead(len(rows), *(median(column) for column in zip(*rows, strict=True)))
