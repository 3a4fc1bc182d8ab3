"""Helpers: short runs of the real command, killed, stopped and compared."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import torch

SHORT = (
    "algo.steps=4",
    "algo.seeds_per_step=3",
    "algo.proposals_per_seed=2",
    "algo.attempts_per_spec=2",
    "algo.warmup.steps=20",
    "algo.warmup.n_demos=2000",
    "algo.warmup.rounds=0",
    "algo.eval.samples=2",
    "seed=3",
)


class Launch:
    """A run of `python -m selfplay.train` in a process of its own."""

    def __init__(
        self, folder: Path, overrides: Sequence[str], cache: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.log = folder / f"console-{time.monotonic_ns()}.txt"
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "selfplay.train", f"output_dir={folder / 'outputs'}", *overrides]
        environ = os.environ | {"SELFPLAY_CACHE_DIR": str(cache)} | dict(environment or {})
        environ.pop("PYTHONPATH", None)
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, env=environ, cwd="/", start_new_session=True
            )

    @property
    def run_dir(self) -> Path:
        return newest_run(self.folder)

    def console(self) -> str:
        return self.log.read_text()

    def wait(self, timeout: float = 400) -> int:
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def wait_until(self, condition: Callable[[], bool], timeout: float = 400) -> None:
        """Until `condition()`; fails at once if the run ends before."""
        deadline = time.monotonic() + timeout
        while not condition():
            assert self.process.poll() is None, (
                f"the run ended with {self.process.returncode}:\n{self.console()[-3000:]}"
            )
            assert time.monotonic() < deadline, f"still waiting after {timeout} s:\n{self.console()[-3000:]}"
            time.sleep(0.1)

    def wait_for_step(self, step: int) -> None:
        self.wait_until(lambda: bool(runs(self.folder)) and len(metrics_of(self.run_dir)) >= step)

    def workers(self, name: str) -> list[psutil.Process]:
        """Descendants whose title holds `name`."""
        found = []
        for process in psutil.Process(self.process.pid).children(recursive=True):
            try:
                if name in " ".join([process.name(), *process.cmdline()]):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The driver, which alone writes to the run's folder, stands still meanwhile."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


def runs(folder: Path) -> list[Path]:
    """Run directories, oldest first; one that is still being made has a hidden name."""
    return sorted(path for path in folder.glob("outputs/*/*") if not path.name.startswith("."))


def newest_run(folder: Path) -> Path:
    return runs(folder)[-1]


def metrics_of(run_dir: Path) -> list[dict[str, Any]]:
    path = run_dir / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def summary_of(run_dir: Path) -> dict[str, Any]:
    return dict(json.loads((run_dir / "summary.json").read_text()))


def weights_of(run_dir: Path) -> dict[str, torch.Tensor]:
    """The weights in the last checkpoint."""
    return weights_in(max((run_dir / "checkpoints").glob("step_*")))


def weights_in(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of a state kept in a folder or below it."""
    path = next(folder.rglob("model_world_size_*_rank_0.pt"))
    from torch.distributed.tensor import DTensor

    state = torch.load(path, map_location="cpu", weights_only=False)  # our own file, written seconds ago
    return {k: v.to_local() if isinstance(v, DTensor) else v for k, v in state.items()}


def nodes_of(run_dir: Path) -> list[str]:
    """Ids of the pool's nodes, in the order of admission."""
    path = max((run_dir / "pool").glob("nodes.*.jsonl"))
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def stable(metrics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Metrics without what depends on the clock."""
    return [
        {k: v for k, v in line.items() if not k.startswith("timing/") and k not in ("tokens_per_s",)}
        for line in metrics
    ]


def remains(run_dir: Path) -> list[str]:
    """Processes that mention the run, and shared memory of ours, some seconds after its end."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = [
            f"{p.pid} {p.name()}"
            for p in psutil.process_iter(["pid", "name"])
            if p.pid != os.getpid() and _mentions(p, str(run_dir))
        ]
        if not found:
            return []
        time.sleep(0.5)
    return found


def _mentions(process: psutil.Process, text: str) -> bool:
    try:
        return any(text in part for part in process.cmdline())
    except psutil.Error:
        return False
