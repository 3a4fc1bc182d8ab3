"""Which processes belong to a run, and which shared memory they use: everything is read from /proc.

A run's processes are recognised by the environment variable `SELFPLAY_RUN_TOKEN`, which the driver sets before it
starts Ray and which every child inherits: raylet, Ray workers, vLLM's engine cores. Three facts about the processes of
this stack shape the rules here:

- the driver sets the variable after its own start, so /proc/<driver>/environ does not show it: callers name the driver
  themselves;
- the package `setproctitle` (vLLM uses it) overwrites /proc/<pid>/environ unless `SPT_NOENV` is set, so
  `run_environment` sets that too, and descendants of a process with the token count as ours whatever their environment
  says;
- orphans lose their ancestry, so a process once seen can be remembered as `ProcessId` and stays ours.

Everything needs nothing but the standard library, and Linux.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

TOKEN_VARIABLE = "SELFPLAY_RUN_TOKEN"
DRIVER_VARIABLE = "SELFPLAY_DRIVER_PID"
GUARD_VARIABLE = "SELFPLAY_RUN_GUARD"
SHARED_MEMORY = Path("/dev/shm")

_PR_SET_PTRACER = 0x59616D61


@dataclass(frozen=True, order=True)
class ProcessId:
    """A process, safe against reuse of its number: `start` is its start in clock ticks since boot."""

    pid: int
    start: int


@dataclass(frozen=True)
class Stat:
    """The fields of /proc/<pid>/stat that are used here; `cpu_s` is user plus system time in seconds."""

    state: str
    parent: int
    start: int
    cpu_s: float


def new_token() -> str:
    """A random token that names one run."""
    return secrets.token_hex(16)


def run_environment(token: str) -> dict[str, str]:
    """The variables the driver (the calling process) must put into `os.environ` before it starts any process of the
    run."""
    return {TOKEN_VARIABLE: token, DRIVER_VARIABLE: str(os.getpid()), "SPT_NOENV": "1"}


def own_socket(handle: str) -> str:
    """`handle`, an `ipc:///tmp/....sock`, in the run's directory for temporary files.

    verl 0.9.1 names the socket for weights after the Ray job, and the first job of every local Ray has the same
    number: two runs on one machine would send their weights to each other's servers.
    """
    return f"ipc://{tempfile.gettempdir()}/{Path(handle).name}"


def allow_tracing() -> bool:
    """Let the driver and its children read this worker's stacks; to be called in each worker process.

    Needed for an ordinary user where Yama's ptrace_scope is 1 (Ubuntu's default). Returns whether the kernel took it;
    without Yama there is nothing to allow and the answer is False.
    """
    driver = os.environ.get(DRIVER_VARIABLE)
    if driver is None:
        return False
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return bool(prctl(_PR_SET_PTRACER, ctypes.c_ulong(int(driver)), 0, 0, 0) == 0)


def read_stat(pid: int) -> Stat | None:
    """State, parent, start and CPU time of a process, or None if there is none."""
    text = read_proc(pid, "stat")
    if not text:
        return None
    fields = text[text.rindex(b")") + 1 :].split()  # the name before it may hold blanks and parentheses
    cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return Stat(fields[0].decode(), int(fields[1]), int(fields[19]), cpu_s)


def identify(pid: int) -> ProcessId | None:
    """The identity of a living process, or None. A zombie is not living: it holds nothing but its number."""
    stat = read_stat(pid)
    return None if stat is None or stat.state in "ZX" else ProcessId(pid, stat.start)


def is_alive(process: ProcessId) -> bool:
    """Whether exactly this process still runs."""
    return identify(process.pid) == process


def open_pidfd(pid: int) -> int | None:
    """A pidfd, or None where kernel or Python lack them. Raises ProcessLookupError if there is no such process."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return None


def send_signal(process: ProcessId, number: int) -> None:
    """Signal exactly this process; a reused number is never hit where the system has pidfds. No error if it has
    ended."""
    try:
        descriptor = open_pidfd(process.pid)
    except ProcessLookupError:
        return
    try:
        if not is_alive(process):
            return
        if descriptor is None:
            os.kill(process.pid, number)
        else:
            signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return
    finally:
        if descriptor is not None:
            os.close(descriptor)


def title(pid: int) -> str:
    """What a person recognises the process by: its command line, shortened to 100 characters, or its name."""
    words = read_proc(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").split()
    return " ".join(words)[:100] or read_proc(pid, "comm").decode(errors="replace").strip() or "?"


def read_proc(pid: int, name: str) -> bytes:
    """A file of /proc/<pid>; empty where the process has ended or the file may not be read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.readall()
    except OSError:
        return b""


def own_processes() -> Iterator[int]:
    """The numbers of all processes of this user."""
    user = os.geteuid()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if os.stat(f"/proc/{entry}").st_uid == user:
                    yield int(entry)
            except OSError:
                continue  # it ended between the two lines


def run_processes(token: str, remembered: Iterable[ProcessId] = ()) -> list[int]:
    """The living processes of the run, in ascending order, without the calling process and without any run's guard.

    A process belongs to the run if its environment carries the token, if it is one of `remembered`, or if it descends
    from such a one.
    """
    mark = f"\0{TOKEN_VARIABLE}={token}\0".encode()
    guard_mark = f"\0{GUARD_VARIABLE}=".encode()
    ours: set[int] = set()
    spared = {os.getpid()}
    parents: dict[int, int] = {}
    known = {process.pid: process.start for process in remembered}
    for pid in own_processes():
        stat = read_stat(pid)
        if stat is None or stat.state in "ZX":
            continue
        parents[pid] = stat.parent
        variables = b"\0" + read_proc(pid, "environ")
        if guard_mark in variables:
            spared.add(pid)
        elif mark in variables or known.get(pid) == stat.start:
            ours.add(pid)
    return sorted(_with_descendants(ours - spared, parents) - spared)


def _with_descendants(roots: set[int], parents: dict[int, int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    family, waiting = set(roots), list(roots)
    while waiting:
        new = [child for child in children.get(waiting.pop(), ()) if child not in family]
        family.update(new)
        waiting.extend(new)
    return family


def shm_segments(pids: Iterable[int]) -> dict[str, int]:
    """Files below /dev/shm that any of the processes maps or holds open, as {name: inode}.

    Names are relative to /dev/shm. Segments already unlinked (Ray's object store) are left out: they go with their last
    user. Processes that ended or may not be read contribute nothing.
    """
    candidates = {path for pid in pids for path in (*_mapped(pid), *_opened(pid))}
    found = {}
    for path in candidates:
        try:
            found[path.removeprefix(f"{SHARED_MEMORY}/")] = os.stat(path, follow_symlinks=False).st_ino
        except OSError:
            continue  # unlinked in the meantime, or "(deleted)"
    return found


def _mapped(pid: int) -> set[str]:
    prefix = f"{SHARED_MEMORY}/".encode()
    lines = read_proc(pid, "maps").split(b"\n")
    return {os.fsdecode(line[line.index(prefix) :]) for line in lines if prefix in line}


def _opened(pid: int) -> set[str]:
    paths = set()
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return set()
    for descriptor in descriptors:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
        except OSError:
            continue  # closed in the meantime
        if target.startswith(f"{SHARED_MEMORY}/"):
            paths.add(target)
    return paths
