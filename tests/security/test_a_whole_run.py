"""A run with secrets in its environment, watched from outside: what it writes, and where it listens.

That a model's program cannot see the environment is tried in tests/sandbox/python_attacks.py ("environment" and
"environment in memory") with a planted secret, in both backends.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from launch import SHORT, Launch
from planted import environment, in_bytes, in_folder, plant
from sockets import Door, doors

pytestmark = pytest.mark.slow

PLANTED = plant()
EVERY_S = 1.0
_SESSION = re.compile(r"(/\S+/ray/session_[^/\s]+)/")


@dataclass
class Seen:
    """What was seen while a command ran: `secrets` are those in the logs of Ray, which are gone after it."""

    code: int
    said: bytes
    doors: set[Door] = field(default_factory=set)
    logs: set[str] = field(default_factory=set)
    secrets: set[str] = field(default_factory=set)

    @property
    def open_doors(self) -> list[str]:
        return sorted({f"{door.address} {door.process}" for door in self.doors if not door.loopback})


def ray_session(root: int) -> Path | None:
    """The folder of the Ray session that descends from `root`, as its raylet's command line names it."""
    for process in psutil.Process(root).children(recursive=True):
        try:
            match = _SESSION.search(" ".join(process.cmdline()))
        except psutil.Error:
            continue
        if match:
            return Path(match[1])
    return None


def watch(process: subprocess.Popen[bytes] | subprocess.Popen[str], seen: Seen) -> None:
    """Look at sockets and Ray's files until the process ends."""
    while process.poll() is None:
        seen.doors |= doors(process.pid)
        try:
            session = ray_session(process.pid)
            if session is not None and (session / "logs").is_dir():
                seen.logs |= {path.name for path in (session / "logs").iterdir()}
                seen.secrets |= in_folder(session, PLANTED)
        except (psutil.Error, OSError):  # it ends while we look
            pass
        time.sleep(EVERY_S)
    seen.code = process.returncode


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def trained(folder: Path) -> Seen:
    """A short training run with all loggers, watched."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in PLANTED.items():
            patch.setenv(name, value)
        patch.chdir(folder)
        launch = Launch(folder, [*SHORT, "logging=wandb", "logging.tensorboard=true"], folder / "cache")
    seen = Seen(0, b"")
    try:
        watch(launch.process, seen)
    finally:
        if launch.process.poll() is None:
            launch.process.kill()
    seen.said = launch.log.read_bytes()
    return seen


def test_a_run_writes_no_secret(trained: Seen, folder: Path) -> None:
    assert trained.code == 0, trained.said.decode()[-3000:]
    assert in_bytes(trained.said, PLANTED) == set()
    assert trained.secrets == set()
    assert {"gcs_server.out", "raylet.out"} <= trained.logs
    assert in_folder(folder, PLANTED) == set()
    (run,) = folder.glob("outputs/ancora/*/run.json")
    assert list(run.parent.glob("wandb/*/*.wandb"))
    assert list(run.parent.glob("tensorboard/*"))


def test_a_run_on_one_machine_listens_on_loopback_alone(trained: Seen) -> None:
    assert trained.code == 0, trained.said.decode()[-3000:]
    names = " ".join(door.process for door in trained.doors)
    assert all(part in names for part in ("raylet", "gcs_server", "WorkerDict", "vLLMHttpServer", "TransferQueue"))
    assert trained.open_doors == []


def evaluated(model: Path, folder: Path) -> Seen:
    """An evaluation of a model that it serves itself, watched."""
    settings = [f"model={model}", "suites=[micro_ancora]", "limit=2", "samples=1", f"output_dir={folder / 'evaluated'}"]
    command = [sys.executable, "-m", "selfplay.evaluate", *settings]
    environ: Mapping[str, Any] = environment(PLANTED, SELFPLAY_CACHE_DIR=str(folder / "cache"))
    seen = Seen(0, b"")
    with (folder / "evaluate.txt").open("w+b") as out:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=out, stderr=subprocess.STDOUT)
        watch(process, seen)
        out.seek(0)
        seen.said = out.read()
    return seen


def test_a_served_model_listens_on_loopback_alone_and_writes_no_secret(trained: Seen, folder: Path) -> None:
    (run,) = folder.glob("outputs/ancora/*/run.json")
    seen = evaluated(run.parent, folder)
    assert seen.code == 0, seen.said.decode()[-3000:]
    assert seen.doors
    assert seen.open_doors == []
    assert in_bytes(seen.said, PLANTED) == set()
    assert in_folder(folder, PLANTED) == set()


class Bomb:
    """Unpickled carelessly, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.path), "w")


def test_weights_that_would_run_code_are_refused(trained: Seen, folder: Path, tmp_path: Path) -> None:
    """A model's folder with a pickle in the place of safetensors."""
    (weights,) = folder.glob("outputs/ancora/*/policies/final/model.safetensors")
    shutil.copytree(weights.parent, tmp_path / "model")
    (tmp_path / "model" / weights.name).unlink()
    bomb = tmp_path / "model" / "pytorch_model.bin"
    torch.save({"model.norm.weight": Bomb(tmp_path / "ran")}, bomb)
    seen = evaluated(tmp_path / "model", tmp_path)
    assert seen.code == 1
    assert b"failed: the server ended" in seen.said
    assert not (tmp_path / "ran").exists()
    torch.load(bomb, weights_only=False)
    assert (tmp_path / "ran").exists()  # it would have
