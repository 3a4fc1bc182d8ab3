"""The heartbeat, and drivers that really hang, lose a worker or are suspended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from selfplay.engine.heartbeat import Heartbeat, Pulse
from selfplay.engine.processes import identify, is_alive
from selfplay.engine.watchdog import DEAD_EXIT_CODE, STALL_EXIT_CODE, bounded

ROOT = Path(__file__).parents[2]

# A driver with one child of the run that waits in `wait_for_tokens`; `MANNER` replaces the last part.
DRIVER = """
import os, subprocess, sys, time
from pathlib import Path
from selfplay.engine.heartbeat import Heartbeat
from selfplay.engine.processes import new_token, run_environment
from selfplay.engine.watchdog import Watchdog
logs, token = Path(sys.argv[1]), new_token()
os.environ.update(run_environment(token))
CHILD = '''
import time
from selfplay.engine.processes import allow_tracing
def wait_for_tokens():
    allow_tracing()
    print("ready", flush=True)
    time.sleep(60)
wait_for_tokens()
'''
child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
heartbeat = Heartbeat()
def watchdog(stall_s, **options):
    return Watchdog(heartbeat, stall_s, token, logs, poll_s=0.05, check_s=0.05, **options)
def hang_in_the_driver():
    time.sleep(60)
"""

HANG = """
with watchdog(0.4, on_stall=lambda: (logs / "saved").write_text("x")), heartbeat.phase("generate"):
    heartbeat.beat("sessions", 3, 8)
    hang_in_the_driver()
"""

HANG_IN_SAVING = """
with watchdog(0.3, on_stall=lambda: time.sleep(60), save_s=0.3):
    hang_in_the_driver()
"""

# As with Ray: once the workers are gone the main thread fails by itself, which must not decide the exit code.
DEAD_WORKER = """
with watchdog(30, check_alive=lambda: "node 2 was lost"), heartbeat.phase("update"):
    child.wait()
    raise RuntimeError("the worker is gone")
"""

FAILING_CHECK = """
watchdog(30, check_alive=lambda: 1 // 0).start()
child.wait()
raise RuntimeError("the worker is gone")
"""

FINE = """
with watchdog(0.5):
    with heartbeat.phase("load", stall_s=60):
        with heartbeat.phase("read"):
            time.sleep(0.7)
    with heartbeat.phase("generate"):
        for i in range(8):
            heartbeat.beat("sessions", i, 8)
            time.sleep(0.1)
print("fine", flush=True)
child.kill()
"""

SUSPENDED = """
with watchdog(0.8):
    print("watching", flush=True)
    time.sleep(0.6)
    for i in range(8):
        time.sleep(0.05)
        heartbeat.beat()
print("fine", flush=True)
child.kill()
"""

WAITING_IS_NO_PROGRESS = """
with watchdog(0.4), heartbeat.phase("generate"):
    while True:
        heartbeat.beat("sessions", 3, 8)
        time.sleep(0.02)
"""


def drive(manner: str, logs: Path) -> tuple[int, str, str, int]:
    """Run a driver to its end: exit code, stdout, stderr and its child's number."""
    driver = start(manner, logs)
    try:
        out, errors = driver.communicate(timeout=30)
    finally:
        driver.kill()
    child, _, rest = out.partition("\n")
    return driver.returncode, rest, errors, int(child)


def start(manner: str, logs: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER + manner, str(logs)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def is_gone(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while identify(pid) is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    return identify(pid) is None


def test_hanging_driver_is_ended_with_a_dump(tmp_path: Path) -> None:
    code, _, errors, child = drive(HANG, tmp_path / "logs")
    assert code == STALL_EXIT_CODE == 3
    assert is_gone(child)
    (dump,) = (tmp_path / "logs").glob("stall-*.txt")
    (message,) = errors.strip().splitlines()
    assert message.startswith('selfplay: no progress for 0 s in phase "generate" (sessions, 3 of 8). Ending the run')
    assert str(dump) in message
    assert "exit code 3" in message
    text = dump.read_text()
    assert "hang_in_the_driver" in text
    child_part = text[text.index(f"== {child} ") :]
    assert "wait_for_tokens" in child_part
    assert "state S, CPU 0." in child_part
    assert (tmp_path / "logs" / "saved").exists()
    assert "saving: done" in text
    assert f"clean-up: ended {child} (" in text


def test_saving_that_hangs_does_not_keep_the_run(tmp_path: Path) -> None:
    code, _, errors, child = drive(HANG_IN_SAVING, tmp_path)
    assert code == STALL_EXIT_CODE
    assert is_gone(child)
    assert "in no phase" in errors
    (dump,) = tmp_path.glob("stall-*.txt")
    assert "saving: not finished after 0 s" in dump.read_text()


@pytest.mark.parametrize(
    ("manner", "reason"),
    [
        (DEAD_WORKER, 'a worker died in phase "update": node 2 was lost'),
        (FAILING_CHECK, "a worker died in no phase: asking for the workers failed: ZeroDivisionError"),
    ],
)
def test_dead_worker_gives_its_own_exit_code(tmp_path: Path, manner: str, reason: str) -> None:
    code, _, errors, child = drive(manner, tmp_path)
    assert code == DEAD_EXIT_CODE == 4
    assert reason in errors
    assert is_gone(child)
    (dump,) = tmp_path.glob("dead-*.txt")
    assert reason in dump.read_text()


def test_unwritable_log_directory_still_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, _, errors, child = drive(HANG, tmp_path / "file")
    assert code == STALL_EXIT_CODE
    assert is_gone(child)
    assert "no dump (" in errors


def test_polling_without_progress_is_a_stall(tmp_path: Path) -> None:
    assert drive(WAITING_IS_NO_PROGRESS, tmp_path)[0] == STALL_EXIT_CODE


def test_long_phases_and_steady_progress_are_left_alone(tmp_path: Path) -> None:
    code, out, errors, _ = drive(FINE, tmp_path)
    assert (code, out, errors) == (0, "fine\n", "")
    assert list(tmp_path.iterdir()) == []


def test_suspended_driver_is_not_taken_for_a_hanging_one(tmp_path: Path) -> None:
    driver = start(SUSPENDED, tmp_path)
    try:
        assert driver.stdout is not None
        driver.stdout.readline()
        assert driver.stdout.readline() == "watching\n"
        time.sleep(0.3)  # the watchdog has looked at least once
        driver.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        driver.send_signal(signal.SIGCONT)
        out, errors = driver.communicate(timeout=20)
        assert (driver.returncode, out, errors) == (0, "fine\n", "")
    finally:
        driver.kill()


def test_phases_nest_and_their_seconds_add_up() -> None:
    heartbeat = Heartbeat()
    with heartbeat.phase("step"):
        with heartbeat.phase("generate", stall_s=9.0):
            time.sleep(0.1)
            with heartbeat.phase("sync"):
                assert heartbeat.pulse().phase == "sync"
                assert heartbeat.pulse().stall_s == 9.0
        assert heartbeat.pulse().phase == "step"
        assert heartbeat.pulse().stall_s is None
        first = heartbeat.seconds(reset=True)
        assert 0.1 + first["sync"] <= first["generate"] <= first["step"]
        time.sleep(0.02)
    second = heartbeat.seconds()
    assert set(second) == {"step"}
    assert 0.02 <= second["step"] < first["step"]
    assert heartbeat.pulse().phase == ""


def test_a_phase_ends_with_its_exception() -> None:
    heartbeat = Heartbeat()
    with pytest.raises(KeyError), heartbeat.phase("update"):
        raise KeyError
    assert heartbeat.pulse().phase == ""


def test_listener_hears_progress_and_no_repetitions() -> None:
    heard: list[Pulse] = []
    heartbeat = Heartbeat(heard.append)
    with heartbeat.phase("generate"):
        heartbeat.beat("sessions", 1, 4)
        heartbeat.beat("sessions", 1, 4)
        heartbeat.beat("sessions", 2, 4)
        heartbeat.beat()
        heartbeat.beat()
    assert [pulse.done for pulse in heard] == [None, 1, 2, None, None, None]
    assert [pulse.count for pulse in heard] == [1, 2, 3, 4, 5, 6]
    assert heard[2].describe() == 'phase "generate" (sessions, 2 of 4)'
    assert heard[0].describe() == 'phase "generate"'
    assert heard[-1].describe() == "no phase"


def test_heartbeat_counts_every_beat_of_every_thread() -> None:
    heartbeat = Heartbeat()

    def beat_many() -> None:
        with heartbeat.phase("own"):
            for _ in range(500):
                heartbeat.beat("x")

    threads = [threading.Thread(target=beat_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heartbeat.pulse().count == 4 * 502
    assert heartbeat.pulse().phase == ""


def test_bounded_says_what_went_wrong() -> None:
    def fail() -> None:
        raise SystemExit(5)

    cases: list[tuple[Callable[[], object], str | None]] = [
        (lambda: 1, None),
        (fail, "SystemExit: 5"),
        (lambda: time.sleep(5), "not finished after 0 s"),
    ]
    assert [bounded(action, 0.2) for action, _ in cases] == [wanted for _, wanted in cases]


def test_identity_of_the_living_only() -> None:
    me = identify(os.getpid())
    assert me is not None
    assert is_alive(me)
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
    assert identify(process.pid) is None
    process.wait()
    assert identify(process.pid) is None
