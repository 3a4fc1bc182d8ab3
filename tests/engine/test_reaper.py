"""Real processes and real shared memory: what belongs to a run goes, whatever else is there stays."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import pytest

from selfplay.engine.cleaning import Inventory, clean_up, make_scratch
from selfplay.engine.processes import (
    GUARD_VARIABLE,
    TOKEN_VARIABLE,
    ProcessId,
    identify,
    is_alive,
    new_token,
    own_socket,
    run_environment,
    run_processes,
    shm_segments,
)
from selfplay.engine.reaper import start_guard, sweep_stale

ROOT = Path(__file__).parents[2]
SHM = Path("/dev/shm")

# A worker: makes or attaches the named segment, says so and sleeps. It may be deaf to SIGTERM, have a child whose
# environment tells nothing (as setproctitle leaves it), or end and leave the segment behind.
WORKER = """
import os, signal, subprocess, sys, time
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
name, mode = sys.argv[1], sys.argv[2]
if name != "-":
    segment = SharedMemory(name, create=mode != "attach", size=4096)
    resource_tracker.unregister(segment._name, "shared_memory")
if mode == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode == "parent":
    command = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    child = subprocess.Popen(command, env={}, start_new_session=True)
    print(child.pid, end=" ")
print("ready", flush=True)
if mode == "leave":
    sys.stdin.read()
    os._exit(0)
time.sleep(600)
"""

# A driver: guard first, then three workers; prints the numbers of guard and workers and does what it is told.
DRIVER = """
import os, subprocess, sys, time
from pathlib import Path
from selfplay.engine.processes import run_environment
from selfplay.engine.reaper import start_guard
token, state, log, segment, worker, manner = sys.argv[1:]
os.environ.update(run_environment(token))
guard = start_guard(token, os.getpid(), Path(state), Path(log))
scratch = guard.scratch().__enter__()
(scratch / "ray").mkdir()
start = lambda *a, **k: subprocess.Popen([sys.executable, "-S", "-c", worker, *a], stdout=subprocess.PIPE, **k)
hearing = "deaf" if manner == "sigkill" else "plain"
workers = [start(segment, hearing), start("-", hearing, start_new_session=True), start("-", "plain")]
for one in workers:
    one.stdout.readline()
print(scratch, guard.pid, *(one.pid for one in workers), flush=True)
if manner == "exit":
    sys.exit(7)
if manner == "finish":
    print(guard.finish(grace_s=0.2).describe(), flush=True)
    sys.exit(0)
time.sleep(600)
"""


def wait_until(condition: Callable[[], bool], limit_s: float = 10.0) -> bool:
    deadline = time.monotonic() + limit_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def segment_name() -> str:
    return f"selfplay-test-{secrets.token_hex(6)}"


def remove(name: str) -> None:
    (SHM / name).unlink(missing_ok=True)


@contextlib.contextmanager
def worker(
    name: str, mode: str, token: str | None, extra: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A worker that has reached its sleep, with the words it printed; ended and its segment removed at exit."""
    environment = {key: value for key, value in os.environ.items() if key != TOKEN_VARIABLE} | dict(extra or {})
    if token is not None:
        environment |= run_environment(token)
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", WORKER, name, mode],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            words = process.stdout.readline().split()
            assert words[-1] == "ready"
            yield process, words
        finally:
            process.kill()
            remove(name)


def test_processes_are_found_by_token_and_by_descent() -> None:
    token = new_token()
    with worker("-", "parent", token) as (ours, words), worker("-", "plain", None) as (foreign, _):
        bare_child = int(words[0])
        assert run_processes(token) == sorted([ours.pid, bare_child])
        assert foreign.pid not in run_processes(token)
        orphan = identify(bare_child)
        assert orphan is not None
        ours.kill()
        ours.wait()
        assert run_processes(token) == []
        assert run_processes(token, {orphan}) == [bare_child]
        assert run_processes(token, {ProcessId(bare_child, orphan.start - 1)}) == []  # the number was reused
        os.kill(bare_child, signal.SIGKILL)
        assert wait_until(lambda: not is_alive(orphan))


def test_a_guard_is_never_listed() -> None:
    token = new_token()
    with worker("-", "plain", token, {GUARD_VARIABLE: token}):
        assert run_processes(token) == []


def test_segments_are_found_mapped_or_open_and_not_once_unlinked() -> None:
    mapped, opened = segment_name(), segment_name()
    with worker(mapped, "plain", None) as (process, _), open(SHM / opened, "w") as file:
        try:
            assert set(shm_segments([process.pid])) == {mapped}
            assert shm_segments([process.pid])[mapped] == (SHM / mapped).stat().st_ino
            assert opened in shm_segments([os.getpid()])
            assert file.writable()
        finally:
            remove(opened)
        assert opened not in shm_segments([os.getpid()])
        remove(mapped)
        assert shm_segments([process.pid]) == {}


def test_clean_up_ends_and_removes_ours_alone() -> None:
    token = new_token()
    held, left, shared, before, foreign = (segment_name() for _ in range(5))
    old = SharedMemory(before, create=True, size=4096)
    resource_tracker.unregister(old._name, "shared_memory")  # type: ignore[attr-defined]
    inventory = Inventory(token, existing={before: (SHM / before).stat().st_ino})
    try:
        with contextlib.ExitStack() as stack:
            deaf, _ = stack.enter_context(worker(held, "deaf", token))
            leaver, _ = stack.enter_context(worker(left, "leave", token))
            stack.enter_context(worker(shared, "create", token))
            stack.enter_context(worker(before, "attach", token))
            parent, words = stack.enter_context(worker("-", "parent", token))
            stranger, _ = stack.enter_context(worker(foreign, "create", None))
            guest, _ = stack.enter_context(worker(shared, "attach", None))
            assert inventory.scan()
            assert not inventory.scan()
            assert leaver.stdin is not None
            leaver.stdin.close()  # it ends without removing its segment
            leaver.wait()

            report = clean_up(token, inventory, grace_s=0.3)

            assert sorted(report.segments) == sorted([held, left])
            assert report.spared == [shared]
            assert report.survivors == []
            assert {deaf.pid, parent.pid, int(words[0])} <= set(report.ended)
            assert leaver.pid not in report.ended
            assert deaf.wait() == -signal.SIGKILL  # it did not hear SIGTERM
            assert parent.wait() == -signal.SIGTERM
            assert run_processes(token) == []
            assert not any((SHM / name).exists() for name in (held, left))
            assert all((SHM / name).exists() for name in (shared, before, foreign))
            assert stranger.poll() is guest.poll() is None
            assert clean_up(token).describe() == "nothing was left"
    finally:
        old.close()
        remove(before)


def test_a_segment_replaced_under_the_same_name_stays() -> None:
    name = segment_name()
    (SHM / name).touch()
    inventory = Inventory(new_token(), segments={name: (SHM / name).stat().st_ino + 1})
    try:
        assert clean_up(inventory.token, inventory).segments == []
        assert (SHM / name).exists()
    finally:
        remove(name)


def test_inventory_survives_json() -> None:
    inventory = Inventory("t", ProcessId(5, 6), {"a": 1}, {ProcessId(7, 8)}, {"b": 3}, Path("/x"))
    assert Inventory.from_json(json.loads(json.dumps(inventory.to_json()))) == inventory


class Run:
    """A driver script with its guard and workers, once all of them are up."""

    def __init__(self, directory: Path, manner: str) -> None:
        directory.mkdir(exist_ok=True)
        self.token, self.segment = new_token(), segment_name()
        self.state, self.log = directory / f"{self.token}.json", directory / f"{self.token}.log"
        arguments = [self.token, self.state, self.log, self.segment, WORKER, manner]
        self.driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.driver.stdout is not None
        scratch, *pids = self.driver.stdout.readline().split()
        self.scratch = Path(scratch)
        self.guard, *self.workers = map(int, pids)

    def remains(self) -> list[object]:
        """Whatever of the run is still there."""
        processes = [pid for pid in (self.guard, *self.workers) if identify(pid)]
        return processes + [path for path in (self.state, self.scratch, SHM / self.segment) if path.exists()]

    def end(self) -> None:
        for pid in (self.driver.pid, self.guard, *self.workers):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.driver.communicate()
        remove(self.segment)


@pytest.mark.parametrize("manner", ["sigkill", "ctrl-c", "exit"])
def test_guard_cleans_up_however_the_driver_dies(tmp_path: Path, manner: str) -> None:
    run = Run(tmp_path, manner)
    other_segment = segment_name()
    try:
        with worker(other_segment, "plain", None) as (stranger, _):
            assert os.getsid(run.guard) == run.guard  # a Ctrl-C in the driver's terminal does not reach it
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(run.guard, number)  # to no effect
            if manner == "sigkill":
                run.driver.kill()
            elif manner == "ctrl-c":  # the segment's owner dies before the guard acts: it must have seen it
                assert wait_until(lambda: run.segment in run.state.read_text())
                os.killpg(run.driver.pid, signal.SIGINT)
            run.driver.wait()
            assert wait_until(lambda: not run.remains()), run.remains()
            assert stranger.poll() is None
            assert (SHM / other_segment).exists()
        (line,) = run.log.read_text().splitlines()
        assert f"driver {run.driver.pid}: the driver has ended; clean-up by the guard: ended " in line
        assert f"removed /dev/shm/{run.segment}; removed {run.scratch}" in line
    finally:
        run.end()


def test_finish_cleans_up_from_the_driver_and_ends_the_guard(tmp_path: Path) -> None:
    run = Run(tmp_path, "finish")
    try:
        assert run.driver.stdout is not None
        report = run.driver.stdout.readline()
        assert run.driver.wait() == 0
        assert run.remains() == []
        assert all(f"{pid} (" in report for pid in run.workers)
        assert run.segment in report
        (line,) = run.log.read_text().splitlines()
        assert "clean-up by the driver: ended " in line
    finally:
        run.end()


def test_guard_of_a_dead_driver_cleans_up_at_once(tmp_path: Path) -> None:
    token, name = new_token(), segment_name()
    dead = subprocess.Popen(["true"])
    dead.wait()
    with worker(name, "plain", token) as (ours, _):
        guard = start_guard(token, dead.pid, tmp_path / "state.json")
        assert wait_until(lambda: not (tmp_path / "state.json").exists())
        assert ours.poll() is not None
        assert not (SHM / name).exists()
        guard.finish()


def test_temporary_files_go_to_a_directory_that_goes_with_the_run(tmp_path: Path) -> None:
    before = tempfile.gettempdir()
    guard = start_guard(new_token(), os.getpid(), tmp_path / "state.json")
    with guard.scratch() as scratch:
        assert tempfile.gettempdir() == os.environ["RAY_TMPDIR"] == str(scratch)
        assert scratch.stat().st_mode & 0o777 == 0o700
        Path(tempfile.mkdtemp(), "lock").touch()
    assert tempfile.gettempdir() == before
    guard.finish()
    assert not scratch.exists()


def test_sockets_fit_where_the_temporary_directory_has_a_long_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    scratch = make_scratch(new_token())
    scratch.rmdir()
    assert scratch.parent == Path("/tmp")


def test_nothing_but_a_scratch_directory_is_removed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "sp-0123abcd").symlink_to("mine")
    for path in (tmp_path / "mine", tmp_path / "sp-0123abcd", tmp_path / "sp-89abcdef"):
        assert clean_up("t", Inventory("t", scratch=path)).scratch is None
    assert (tmp_path / "mine").exists()


def test_sweep_cleans_up_where_driver_and_guard_were_killed(tmp_path: Path) -> None:
    killed, living = Run(tmp_path / "a", "wait"), Run(tmp_path / "b", "wait")
    try:
        assert wait_until(lambda: killed.segment in killed.state.read_text())
        assert sweep_stale(tmp_path / "a") == []  # driver and guard live
        os.kill(killed.guard, signal.SIGKILL)
        assert sweep_stale(tmp_path / "a") == []  # the driver does
        killed.driver.kill()
        killed.driver.wait()
        os.kill(killed.workers[0], signal.SIGKILL)  # its segment is known from the state file alone
        assert wait_until(lambda: identify(killed.workers[0]) is None)

        state = json.loads(killed.state.read_text())
        elsewhere = tmp_path / "a" / "elsewhere.json"
        elsewhere.write_text(json.dumps({**state, "host": ["another boot", "another namespace"]}))
        (tmp_path / "a" / "broken.json").write_text("{}")
        reused = {**state, "inventory": {**state["inventory"], "driver": [os.getpid(), 1]}}
        killed.state.write_text(json.dumps(reused))  # a process of the driver's number lives, but began later

        (report,) = sweep_stale(tmp_path / "a")

        assert report.segments == [killed.segment]
        assert sorted(report.ended) == sorted(killed.workers[1:])
        assert killed.remains() == []
        assert elsewhere.exists()
        assert sweep_stale(tmp_path / "b") == []
        assert len(living.remains()) == 7
    finally:
        killed.end()
        living.end()


def test_each_run_has_sockets_of_its_own(tmp_path: Path) -> None:
    names = set()
    for _ in range(2):
        token = new_token()
        guard = start_guard(token, os.getpid(), tmp_path / token)
        with guard.scratch():
            names.add(own_socket("ipc:///tmp/rl-colocate-zmq-01000000-replica-1000-rank-12.sock"))
        guard.finish()
    assert len(names) == 2
    assert all(name.endswith(".sock") and len(name) - len("ipc://") < 108 for name in names)  # the kernel's limit
