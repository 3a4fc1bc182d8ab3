"""The list of what one run uses, and the clean-up that works through it. See `selfplay.engine.reaper` for who calls it
when.

Covered: processes of this machine and user, files below /dev/shm, the run's directory for temporary files. Not covered:
other machines of a cluster, and a segment that was created and left by its user between two scans when no resource
tracker of multiprocessing removes it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from selfplay.engine.processes import (
    SHARED_MEMORY,
    ProcessId,
    identify,
    is_alive,
    own_processes,
    read_stat,
    run_processes,
    send_signal,
    shm_segments,
    title,
)

_TRACKER = "multiprocessing.resource_tracker"
_LONGEST_BASE = 24  # + /sp-12345678 + /ray/session_2026-01-01_00-00-00_000000_0000000/sockets/plasma_store
_LOOKS = 3  # how often a new name in /dev/shm that none of ours maps is looked for before it counts as foreign


@dataclass
class Inventory:
    """What belongs to one run: its driver, the processes and shared-memory files seen so far, and its scratch
    directory, where Ray, vLLM and verl keep sockets, logs and locks.

    Files that were in /dev/shm before the run (`existing`, {name: inode}) are never the run's.
    """

    token: str
    driver: ProcessId | None = None
    existing: dict[str, int] = field(default_factory=dict)
    processes: set[ProcessId] = field(default_factory=set)
    segments: dict[str, int] = field(default_factory=dict)
    scratch: Path | None = None
    _looks: dict[tuple[str, int], int] = field(default_factory=dict, repr=False)

    def scan(self, thorough: bool = False) -> bool:
        """Look again at processes and segments; returns whether anything changed.

        Reading the maps of large processes is the dear part, so it happens only for names in /dev/shm that are new, or
        if `thorough`.
        """
        before = (set(self.processes), dict(self.segments))
        self.processes = {process for pid in run_processes(self.token, self.processes) if (process := identify(pid))}
        present = list_shared_memory()
        self.segments = {name: inode for name, inode in self.segments.items() if present.get(name) == inode}
        known = (self.existing | self.segments).items()
        unknown = {item for item in present.items() if item not in known}
        self._looks = {item: self._looks.get(item, 0) + 1 for item in unknown}
        if thorough or any(looks <= _LOOKS for looks in self._looks.values()):
            used = shm_segments(self.pids())
            self.segments.update({name: inode for name, inode in used.items() if self.existing.get(name) != inode})
        return before != (self.processes, self.segments)

    def pids(self) -> list[int]:
        """The run's living processes, the driver included."""
        mine = self.processes | ({self.driver} if self.driver else set())
        return sorted(process.pid for process in mine if is_alive(process))

    def to_json(self) -> dict[str, Any]:
        """A JSON object with everything but the counters of looks."""
        return {
            "token": self.token,
            "driver": [self.driver.pid, self.driver.start] if self.driver else None,
            "existing": self.existing,
            "processes": sorted([process.pid, process.start] for process in self.processes),
            "segments": self.segments,
            "scratch": str(self.scratch) if self.scratch else None,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Inventory:
        """The inverse of `to_json`; raises KeyError or TypeError for anything else."""
        return cls(
            token=data["token"],
            driver=ProcessId(*data["driver"]) if data["driver"] else None,
            existing=dict(data["existing"]),
            processes={ProcessId(*process) for process in data["processes"]},
            segments=dict(data["segments"]),
            scratch=Path(data["scratch"]) if data["scratch"] else None,
        )


@dataclass
class CleanUp:
    """What a clean-up did: processes ended (title by number), those that would not die, files and directory removed."""

    ended: dict[int, str] = field(default_factory=dict)
    survivors: list[int] = field(default_factory=list)
    segments: list[str] = field(default_factory=list)
    spared: list[str] = field(default_factory=list)
    scratch: Path | None = None

    def describe(self) -> str:
        """One line for a person."""
        parts = []
        if self.ended:
            parts.append("ended " + ", ".join(f"{pid} ({name[:60]})" for pid, name in sorted(self.ended.items())))
        if self.survivors:
            parts.append(f"could not end {self.survivors}")
        if self.segments:
            parts.append("removed /dev/shm/" + ", /dev/shm/".join(self.segments))
        if self.spared:
            parts.append("left, since others use them: " + ", ".join(self.spared))
        if self.scratch:
            parts.append(f"removed {self.scratch}")
        return "; ".join(parts) or "nothing was left"


def clean_up(token: str, remembered: Inventory | None = None, grace_s: float = 3.0) -> CleanUp:
    """End the run's processes (not the caller, not the driver, not a guard) and remove its segments and scratch
    directory.

    SIGTERM first, after `grace_s` seconds SIGKILL; multiprocessing's resource trackers go last, since they unlink what
    their dead parents left. Takes at most `grace_s` + 4 s. Segments that a process of somebody else maps stay, and so
    do files of other users.
    """
    inventory = remembered or Inventory(token)
    inventory.scan(thorough=True)
    report = CleanUp()
    _end_all(inventory, report, signal.SIGTERM, spare_trackers=True, limit_s=grace_s)
    _end_all(inventory, report, signal.SIGKILL, spare_trackers=True, limit_s=1.0)
    _end_all(inventory, report, signal.SIGKILL, spare_trackers=False, limit_s=3.0)
    report.survivors = [process.pid for process in sorted(_to_end(inventory))]
    _remove_segments(inventory, report)
    if inventory.scratch is not None and not report.survivors and is_scratch(inventory.scratch):
        shutil.rmtree(inventory.scratch, ignore_errors=True)
        report.scratch = inventory.scratch
    return report


def _end_all(inventory: Inventory, report: CleanUp, number: int, spare_trackers: bool, limit_s: float) -> None:
    """Signal every process of the run once, newcomers too, until none is left or the time is over."""
    deadline = time.monotonic() + limit_s
    signalled: set[ProcessId] = set()
    while True:
        inventory.scan()
        left = _to_end(inventory)
        for process in left - signalled:
            name = report.ended.setdefault(process.pid, title(process.pid))
            if not (spare_trackers and _TRACKER in name):
                send_signal(process, number)
                signalled.add(process)
        if not left or time.monotonic() > deadline:
            return
        time.sleep(0.02)


def _to_end(inventory: Inventory) -> set[ProcessId]:
    """The run's living processes but for the living driver's own resource tracker, which ends with the driver and is
    missed before."""
    driver = inventory.driver.pid if inventory.driver and is_alive(inventory.driver) else None
    left = set()
    for process in inventory.processes:
        status = read_stat(process.pid)
        if status is None or status.start != process.start or status.state in "ZX":
            continue
        if not (status.parent == driver and _TRACKER in title(process.pid)):
            left.add(process)
    return left


def list_shared_memory() -> dict[str, int]:
    """All files below /dev/shm as {relative name: inode}."""
    found = {}
    for directory, _, names in os.walk(SHARED_MEMORY):
        for name in names:
            path = os.path.join(directory, name)
            try:
                found[os.path.relpath(path, SHARED_MEMORY)] = os.stat(path, follow_symlinks=False).st_ino
            except OSError:
                continue  # unlinked in the meantime
    return found


def _remove_segments(inventory: Inventory, report: CleanUp) -> None:
    if not inventory.segments:
        return
    ours = set(inventory.pids())
    foreign = shm_segments(pid for pid in own_processes() if pid not in ours)
    for name, inode in sorted(inventory.segments.items()):
        path = SHARED_MEMORY / name
        try:
            status = os.stat(path, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if status.st_ino != inode or status.st_uid != os.geteuid():
            continue
        if name in foreign:
            report.spared.append(name)
        else:
            path.unlink(missing_ok=True)
            report.segments.append(name)


def make_scratch(token: str) -> Path:
    """A new private directory for the temporary files of the run `token`.

    In the user's temporary directory, or in /tmp where that has so long a name that the paths of Ray's sockets in it
    would exceed the 107 bytes that the system allows.
    """
    base = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir())
    path = (base if len(str(base)) <= _LONGEST_BASE else Path("/tmp")) / f"sp-{token[:8]}"
    path.mkdir(mode=0o700)
    return path


def is_scratch(path: Path) -> bool:
    """Whether `path` is what `make_scratch` makes: a real directory of this user with a name of that form."""
    try:
        status = path.lstat()
    except OSError:
        return False
    named = re.fullmatch(r"sp-[0-9a-f]{8}", path.name) is not None
    return named and stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
