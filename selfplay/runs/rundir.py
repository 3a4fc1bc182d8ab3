"""The directory of one run, `outputs/<algo>/<timestamp>-<name>/`: made whole or not at all, held by one process.

config.yaml    the resolved settings            run.json       version, commit, overrides, launches
metrics.jsonl  one object a step                summary.json   status and results
pool/  rollouts/  checkpoints/  logs/
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from selfplay.runs.files import RunDirError, sync_folder, to_json, write_atomic
from selfplay.runs.provenance import provenance
from selfplay.runs.summary import Status, Summary, read_summary, write_summary

LOCK = ".lock"
_CREATING = ".creating-"
_NAME = re.compile(r"^\d{8}-\d{6}-(?P<name>.+?)(?:\+\d+)?$")
_FOLDERS = ("pool", "rollouts", "checkpoints", "logs")


class RunDir:
    """An open run directory. The lock is the kernel's: it ends with the process, however that ends."""

    def __init__(self, path: Path, lock: IO[str], resumed: bool) -> None:
        self.path = path
        self.resumed = resumed
        self._lock = lock
        self.config_yaml = path / "config.yaml"
        self.run_json = path / "run.json"
        self.metrics = path / "metrics.jsonl"
        self.summary = path / "summary.json"
        self.pool = path / "pool"
        self.rollouts = path / "rollouts"
        self.checkpoints = path / "checkpoints"
        self.reference = path / "reference"
        self.logs = path / "logs"

    def __enter__(self) -> RunDir:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let another process open the directory."""
        self._lock.close()

    def record_launch(self, config_yaml: str, overrides: Sequence[str]) -> None:
        """Note in run.json that this process continues the run, and with which settings."""
        record = read_run_json(self.path)
        record["overrides"] = list(overrides)
        record["launches"].append(_launch())
        summary = _summary(self.path) or Summary(seed=record["seed"])
        summary.status, summary.message = Status.RUNNING, ""
        write_summary(self.summary, summary)
        write_atomic(self.config_yaml, config_yaml)
        write_atomic(self.run_json, to_json(record, indent=2) + "\n")


def create_run_dir(
    output_dir: Path, algo: str, name: str, seed: int, config_yaml: str, overrides: Sequence[str]
) -> RunDir:
    """Make the directory of a fresh run and hold it.

    It is filled under a hidden name and then renamed, so every directory by a run's name is a run.

    Raises:
        RunDirError: `output_dir` cannot be written.
    """
    parent = output_dir / algo
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _sweep(parent)
        now = datetime.now()
        hidden = parent / f"{_CREATING}{now:%Y%m%d-%H%M%S}-{os.getpid()}"
        hidden.mkdir()
    except OSError as error:
        reason = f"{error.strerror}: {error.filename}"
        raise RunDirError(f"output_dir: {str(output_dir)!r} is not allowed; {reason}") from error
    lock = _acquire(hidden)
    for folder in _FOLDERS:
        (hidden / folder).mkdir()
    record = {
        "format": 1,
        "algo": algo,
        "name": name,
        "seed": seed,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "overrides": list(overrides),
        **provenance(),
        "launches": [_launch()],
    }
    write_atomic(hidden / "config.yaml", config_yaml)
    write_atomic(hidden / "run.json", to_json(record, indent=2) + "\n")
    write_summary(hidden / "summary.json", Summary(seed=seed))
    return RunDir(_rename_free(hidden, parent, f"{now:%Y%m%d-%H%M%S}-{name}"), lock, resumed=False)


def open_run_dir(path: Path) -> RunDir:
    """Hold an existing run's directory, to continue the run.

    Raises:
        RunDirError: there is no run at `path`, or another process holds it.
    """
    if not (path / "run.json").is_file() or not (path / "config.yaml").is_file():
        raise RunDirError(f"resume: {str(path)!r} is not allowed; it is no run directory (no run.json and config.yaml)")
    lock = _acquire(path)
    for folder in _FOLDERS:
        (path / folder).mkdir(exist_ok=True)
    return RunDir(path, lock, resumed=True)


def unfinished_runs(output_dir: Path, algo: str, name: str, seed: int) -> list[Path]:
    """Directories of runs of this algo, name and seed that did not finish, newest first.

    Runs that ended with bad settings or data are left out: they would end the same way again.
    """
    ended = (Status.FINISHED, Status.BAD_CONFIG)
    return [path for path, status in runs_of(output_dir, algo, name, seed) if status not in ended]


def runs_of(output_dir: Path, algo: str, name: str, seed: int) -> list[tuple[Path, Status]]:
    """Directories of runs of this algo, name and seed with their status, newest first."""
    parent = output_dir / algo
    found: list[tuple[str, str, Path, Status]] = []
    for entry in parent.iterdir() if parent.is_dir() else ():
        match = _NAME.match(entry.name)
        if match is None or match["name"] != name or not (entry / "run.json").is_file():
            continue
        record = read_run_json(entry)
        if record["name"] == name and record["seed"] == seed:
            summary = _summary(entry)
            status = Status.RUNNING if summary is None else summary.status
            found.append((str(record["created"]), entry.name, entry, status))
    return [(path, status) for _, _, path, status in sorted(found, reverse=True)]


def read_run_json(path: Path) -> dict[str, Any]:
    """The record of the run at `path`.

    Raises:
        RunDirError: it is missing or not a run's record.
    """
    file = path / "run.json"
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        missing = {"algo", "name", "seed", "created", "overrides", "launches"} - record.keys()
    except (OSError, ValueError, AttributeError) as error:
        raise RunDirError(f"{file}: not a run's record: {error}") from error
    if missing:
        raise RunDirError(f"{file}: not a run's record: {', '.join(sorted(missing))} missing")
    return dict(record)


def _summary(path: Path) -> Summary | None:
    """The run's summary; None for a damaged one, which its checkpoint replaces when the run is continued."""
    try:
        return read_summary(path / "summary.json")
    except RunDirError:
        return None


def _launch() -> dict[str, Any]:
    return {"started": datetime.now(UTC).isoformat(timespec="seconds"), "pid": os.getpid()}


def _acquire(path: Path) -> IO[str]:
    """The open, locked lock file; the descriptor is not inherited by programs that the process starts."""
    lock = (path / LOCK).open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        holder = lock.read().strip()
        lock.close()
        raise RunDirError(f"{path}: in use by another process{f' (pid {holder})' if holder else ''}") from error
    lock.seek(0)
    lock.truncate()
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def _rename_free(hidden: Path, parent: Path, name: str) -> Path:
    """Give the finished directory its name; `+2`, `+3`, ... is added if runs started in the same second."""
    for number in range(1, 1000):
        final = parent / (name if number == 1 else f"{name}+{number}")
        if final.exists():
            continue
        try:
            os.rename(hidden, final)
        except OSError:  # another process took the name in between
            if final.exists():
                continue
            raise
        sync_folder(parent)
        return final
    raise RunDirError(f"{parent / name}: a thousand runs have this name")


def _sweep(parent: Path) -> None:
    """Remove directories whose creation was cut short; one that a process still holds is left alone."""
    for entry in parent.glob(f"{_CREATING}*"):
        try:
            lock = _acquire(entry)
        except (RunDirError, FileNotFoundError):
            continue
        shutil.rmtree(entry, ignore_errors=True)
        lock.close()
