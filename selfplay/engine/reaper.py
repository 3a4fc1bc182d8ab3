"""Leave nothing behind: a run's processes, shared memory and temporary files go, however the driver ends.

The driver starts a *guard* before Ray: a small process in a session of its own that waits for the driver's death,
SIGKILL included, keeps the list of what the run uses, and cleans up. `Guard.finish` does the same from the driver at a
normal end. Should somebody kill driver and guard alike, the next run's `sweep_stale` works from the guard's last state
file.

    token = new_token()
    os.environ.update(run_environment(token))      # both in selfplay.engine.processes
    sweep_stale()
    guard = start_guard(token, os.getpid())
    with guard.scratch():                          # temporary files go to a directory of the run's own
        ...                                        # ray.init, train, ray.shutdown
    guard.finish()
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from selfplay.engine.cleaning import CleanUp, Inventory, clean_up, list_shared_memory, make_scratch
from selfplay.engine.processes import (
    GUARD_VARIABLE,
    TOKEN_VARIABLE,
    ProcessId,
    identify,
    is_alive,
    open_pidfd,
    run_processes,
    shm_segments,
)

__all__ = [
    "CleanUp",
    "Guard",
    "Inventory",
    "clean_up",
    "run_processes",
    "shm_segments",
    "start_guard",
    "state_directory",
    "sweep_stale",
]

_TEMPORARY = ("TMPDIR", "RAY_TMPDIR")  # where Python's and Ray's temporary files go
SCAN_EVERY_S = 1.0
SCAN_SHARE = 0.005  # of one core: with thousands of processes the guard looks less often


def state_directory() -> Path:
    """Where the guards of this user on this machine keep their state: a private directory below the system's temporary
    one.

    Not in the home directory, which machines may share. Raises PermissionError if somebody else made the directory.
    """
    path = Path(tempfile.gettempdir()) / f"selfplay-{os.geteuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if status.st_uid != os.geteuid() or path.is_symlink():
        raise PermissionError(f"{path} belongs to somebody else; set TMPDIR to a directory of your own")
    return path


class Guard:
    """The driver's handle on its guard. Not thread-safe, except that `clean_up` may run in any thread."""

    def __init__(self, inventory: Inventory, process: subprocess.Popen[str], state_path: Path, log_path: Path) -> None:
        self.pid = process.pid
        self.log_path = log_path
        self._inventory, self._process, self._state_path = inventory, process, state_path
        self._finished = False

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Within the block this process and those it starts keep their temporary files in the run's own directory."""
        path = self._inventory.scratch
        assert path is not None
        before = {name: os.environ.get(name) for name in _TEMPORARY}
        os.environ.update(dict.fromkeys(_TEMPORARY, str(path)))
        tempfile.tempdir = None  # asked again
        try:
            yield path
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
            tempfile.tempdir = None

    def clean_up(self, grace_s: float = 3.0) -> CleanUp:
        """End the run's processes and remove what they leave, now, from the driver; the guard stays."""
        if (state := _read_state(self._state_path)) is not None:
            seen = Inventory.from_json(state["inventory"])
            self._inventory.processes |= seen.processes
            self._inventory.segments |= seen.segments
        report = clean_up(self._inventory.token, self._inventory, grace_s)
        _log(self.log_path, self._inventory, "clean-up by the driver", report)
        return report

    def finish(self, grace_s: float = 3.0) -> CleanUp:
        """Clean up at the normal end of a run and end the guard; call it after `ray.shutdown`, which otherwise runs at
        exit and writes to the scratch directory anew. A second call does nothing.
        """
        if self._finished:
            return CleanUp()
        self._finished = True
        assert self._process.stdin is not None
        report = self.clean_up(grace_s)
        with suppress(BrokenPipeError):  # a guard that has ended needs no word
            os.write(self._process.stdin.fileno(), b"finish\n")  # unbuffered
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdin.close()
        self._state_path.unlink(missing_ok=True)
        return report


def start_guard(token: str, driver_pid: int, state_path: Path | None = None, log_path: Path | None = None) -> Guard:
    """Start the guard of a run; call it before Ray starts.

    `state_path` (default: `state_directory()/<token>.json`) is what a later `sweep_stale` reads; `log_path` (default:
    beside it) receives a line for each clean-up. If the driver is dead already the guard cleans up at once. Raises
    RuntimeError if the guard does not start.
    """
    state_path = (state_path or state_directory() / f"{token}.json").absolute()
    log_path = (log_path or state_path.with_suffix(".log")).absolute()
    scratch = make_scratch(token)
    if (driver := identify(driver_pid)) is not None:
        inventory = Inventory(token, driver, existing=list_shared_memory(), scratch=scratch)
    else:  # a start of -1 fits no process, so none that got the number later is taken for the driver
        inventory = Inventory(token, ProcessId(driver_pid, -1), scratch=scratch)
    _write_state(state_path, inventory, None, log_path)
    environment = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    environment |= {GUARD_VARIABLE: token, "PYTHONPATH": str(Path(__file__).parents[2])}
    with log_path.open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-S", "-P", "-m", "selfplay.engine.reaper", str(state_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            cwd="/",
            start_new_session=True,
            text=True,
        )
    assert process.stdout is not None
    with process.stdout as output:
        if not select.select([output], [], [], 20.0)[0] or output.readline() != "ready\n":
            process.kill()
            process.wait()
            state_path.unlink(missing_ok=True)
            scratch.rmdir()
            raise RuntimeError(f"the guard of the run did not start; see {log_path}")
    return Guard(inventory, process, state_path, log_path)


def sweep_stale(directory: Path | None = None) -> list[CleanUp]:
    """Clean up after earlier runs whose driver and guard were both killed; the reports name what was found."""
    reports = []
    for path in sorted((directory or state_directory()).glob("*.json")):
        state = _read_state(path)
        if state is None or state["host"] != _host():
            continue
        inventory = Inventory.from_json(state["inventory"])
        guard = ProcessId(*state["guard"]) if state["guard"] else None
        if any(process is not None and is_alive(process) for process in (inventory.driver, guard)):
            continue
        report = clean_up(inventory.token, inventory)
        _log(Path(state["log"]), inventory, "driver and guard had been killed; clean-up by a later run", report)
        path.unlink(missing_ok=True)
        reports.append(report)
    return reports


def _host() -> list[str]:
    """Within which process numbers mean the same: this boot of the machine and this process namespace."""
    return [Path("/proc/sys/kernel/random/boot_id").read_text().strip(), os.readlink("/proc/self/ns/pid")]


def _write_state(path: Path, inventory: Inventory, guard: ProcessId | None, log_path: Path) -> None:
    state = {
        "inventory": inventory.to_json(),
        "guard": [guard.pid, guard.start] if guard else None,
        "log": str(log_path),
        "host": _host(),
    }
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.part")
    partial.write_text(json.dumps(state))
    os.replace(partial, path)


def _read_state(path: Path) -> dict[str, Any] | None:
    """The state, or None if there is no such file or it is none of ours (which is logged)."""
    try:
        state = json.loads(path.read_text())
        Inventory.from_json(state["inventory"])
        return {key: state[key] for key in ("inventory", "guard", "log", "host")}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        logging.getLogger(__name__).warning("%s: not a guard's state file; remove it", path)
        return None


def _log(path: Path, inventory: Inventory, cause: str, report: CleanUp) -> None:
    """Append a line; without a directory to write to (a run removed by hand) there is nobody to read it."""
    driver = inventory.driver.pid if inventory.driver else "?"
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    line = f"{now} run {inventory.token[:8]}, driver {driver}: {cause}: {report.describe()}\n"
    try:
        with path.open("a") as file:
            file.write(line)
    except FileNotFoundError:
        return


def _guard_main(state_path: Path) -> None:
    """The guard: wait for the driver's death or its word, scanning meanwhile; then clean up and remove the state
    file."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    state = json.loads(state_path.read_text())
    inventory, log_path, me = Inventory.from_json(state["inventory"]), Path(state["log"]), identify(os.getpid())
    _write_state(state_path, inventory, me, log_path)
    os.write(sys.stdout.fileno(), b"ready\n")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the driver need not keep the pipe open
    finished = _wait(state_path, inventory, me, log_path)
    if not finished:
        _log(log_path, inventory, "the driver has ended; clean-up by the guard", clean_up(inventory.token, inventory))
    state_path.unlink(missing_ok=True)


def _wait(state_path: Path, inventory: Inventory, me: ProcessId | None, log_path: Path) -> bool:
    """Scan until the driver is dead (False) or says that it has cleaned up (True)."""
    assert inventory.driver is not None
    poller = select.poll()
    poller.register(sys.stdin.fileno(), select.POLLIN)
    try:
        descriptor = open_pidfd(inventory.driver.pid)
    except ProcessLookupError:
        return False
    if descriptor is not None:
        poller.register(descriptor, select.POLLIN)  # readable once the process is dead
    scan_s = 0.0
    while is_alive(inventory.driver):
        ready = {number for number, _ in poller.poll(1000 * max(SCAN_EVERY_S, scan_s / SCAN_SHARE))}
        if sys.stdin.fileno() in ready:
            if os.read(sys.stdin.fileno(), 65536):
                return True
            poller.unregister(sys.stdin.fileno())  # the driver closed it: it is about to end
        began = time.process_time()
        if inventory.scan():
            _write_state(state_path, inventory, me, log_path)
        scan_s = time.process_time() - began
    return False


if __name__ == "__main__":
    _guard_main(Path(sys.argv[1]))
