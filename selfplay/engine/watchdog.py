"""Ends a run that hangs: writes down where every process stands, saves what can be saved, leaves nothing behind.

Exit codes: 3 after a stall, 4 when a worker is known to be dead. Everything that could hang in turn (a dump, the
saving, a blocked terminal) has a time limit of its own, so that the exit comes in any case.

One limit: the watchdog is a thread of the driver. A C extension that holds Python's global lock for ever stops it too.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO

from selfplay.engine.cleaning import Inventory, clean_up
from selfplay.engine.heartbeat import Heartbeat
from selfplay.engine.processes import identify, read_proc, read_stat, run_processes, title
from selfplay.engine.reaper import Guard

STALL_EXIT_CODE = 3
DEAD_EXIT_CODE = 4

_DUMP_LIMIT_S = 45.0  # for all processes together
_PY_SPY_LIMIT_S = 8.0  # for each: reading the symbols of a process with torch in it takes seconds
_CLEAN_LIMIT_S = 15.0
_MESSAGE_LIMIT_S = 5.0


class Watchdog:
    """Watches a heartbeat from a daemon thread and ends the process (`os._exit`) if the run hangs or a worker is dead.

    heartbeat: what to watch. stall_s: seconds without progress that count as a stall, unless the current phase has its
        own limit. Time in which this process did not run (a suspended machine, Ctrl-Z) counts as one poll at most.
    run_token: names the run's processes. log_dir: where `stall-<time>.txt` or `dead-<time>.txt` goes. on_stall: saves
    what can be saved; it gets `save_s` seconds, in a thread of its own. check_alive: called every `check_s` seconds in
    a thread of its own; a returned message, or an exception, means that a
        worker is dead.
    guard: whose list of processes, segments and directories the clean-up uses; without one it goes by the token alone.

    Use it as a context manager, or `start` and `stop` it. Once it has begun to end the run it does not let the main
    thread end first, so the exit code is the watchdog's even if the main thread then fails because its workers are
    gone.
    """

    def __init__(
        self,
        heartbeat: Heartbeat,
        stall_s: float,
        run_token: str,
        log_dir: Path,
        on_stall: Callable[[], object] | None = None,
        *,
        check_alive: Callable[[], str | None] | None = None,
        guard: Guard | None = None,
        poll_s: float = 1.0,
        check_s: float = 5.0,
        save_s: float = 60.0,
    ) -> None:
        self._heartbeat, self._stall_s, self._token, self._log_dir = heartbeat, stall_s, run_token, log_dir
        self._on_stall, self._check_alive, self._guard = on_stall, check_alive, guard
        self._poll_s, self._check_s, self._save_s = poll_s, check_s, save_s
        self._stop = threading.Event()
        self._ending = threading.Event()
        self._dead_message: str | None = None
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()
        if self._check_alive is not None:
            threading.Thread(target=self._check, name="watchdog-check", daemon=True).start()
        atexit.register(self.stop)

    def stop(self) -> None:
        """End the watch. If the watchdog is ending the run, the main thread does not come back from here."""
        self._stop.set()
        if not self._ending.is_set() or threading.current_thread() is threading.main_thread():
            self._thread.join()
        atexit.unregister(self.stop)

    def __enter__(self) -> Watchdog:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _watch(self) -> None:
        silent_s, count, last = 0.0, -1, time.monotonic()
        while not self._stop.wait(self._poll_s):
            now = time.monotonic()
            pulse = self._heartbeat.pulse()
            silent_s = silent_s + min(now - last, 2 * self._poll_s) if pulse.count == count else 0.0
            count, last = pulse.count, now
            limit_s = self._stall_s if pulse.stall_s is None else pulse.stall_s
            if self._dead_message is not None:
                self._end("dead", f"a worker died in {pulse.describe()}: {self._dead_message}", DEAD_EXIT_CODE)
            elif silent_s > limit_s:
                reason = f"no progress for {silent_s:.0f} s in {pulse.describe()}"
                self._end("stall", reason, STALL_EXIT_CODE)

    def _check(self) -> None:
        assert self._check_alive is not None
        while self._dead_message is None and not self._stop.wait(self._check_s):
            try:
                self._dead_message = self._check_alive()
            except Exception as error:  # whatever it is: the workers cannot be asked any more
                self._dead_message = f"asking for the workers failed: {type(error).__name__}: {error}"

    def _end(self, kind: str, reason: str, code: int) -> None:
        self._ending.set()
        try:
            path = self._log_dir / f"{kind}-{time.strftime('%Y%m%d-%H%M%S')}.txt"
            written = bounded(lambda: self._dump(path, reason), _DUMP_LIMIT_S + 2 * _PY_SPY_LIMIT_S)
            dump = f"stacks of all processes: {path}" if written is None else f"no dump ({written}): {path}"
            bounded(lambda: _say(f"selfplay: {reason}. Ending the run with exit code {code}; {dump}"), _MESSAGE_LIMIT_S)
            if self._on_stall is not None:
                problem = bounded(self._on_stall, self._save_s)
                bounded(lambda: _append(path, f"saving: {problem or 'done'}"), _MESSAGE_LIMIT_S)
            bounded(lambda: self._clean(path), _CLEAN_LIMIT_S)
        finally:
            os._exit(code)

    def _dump(self, path: Path, reason: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + _DUMP_LIMIT_S
        with path.open("w") as file:
            file.write(f"{reason}\n\n== driver {os.getpid()} {title(os.getpid())}\n")
            file.flush()
            faulthandler.dump_traceback(file, all_threads=True)
            for pid in run_processes(self._token):
                describe_process(pid, file, deadline - time.monotonic())
                file.flush()

    def _clean(self, path: Path) -> None:
        if self._guard is not None:
            report = self._guard.clean_up()
        else:
            report = clean_up(self._token, Inventory(self._token, identify(os.getpid())))
        _append(path, f"clean-up: {report.describe()}")


def bounded(action: Callable[[], object], limit_s: float) -> str | None:
    """Run `action` in a thread; returns None if it ended well within `limit_s` seconds, else what went wrong in
    words."""
    problem = [f"not finished after {limit_s:.0f} s"]

    def attempt() -> None:
        try:
            action()
            problem.clear()
        except BaseException as error:  # SystemExit and KeyboardInterrupt too: the exit code is not theirs to choose
            problem[0] = f"{type(error).__name__}: {error}"

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(limit_s)
    return problem[0] if problem else None


def describe_process(pid: int, file: IO[str], limit_s: float) -> None:
    """Write name, state, CPU time and, where the system lets us, the Python stacks of a process, in `limit_s`
    seconds."""
    stat = read_stat(pid)
    if stat is None:
        return
    file.write(f"\n== {pid} {title(pid)}\nparent {stat.parent}, state {stat.state}, CPU {stat.cpu_s:.1f} s, ")
    file.write(f"waits in {read_proc(pid, 'wchan').decode() or '?'}\n")
    if limit_s <= 0:
        file.write("(no time left for its stacks)\n")
    elif _is_python(pid) and (stacks := _python_stacks(pid, min(limit_s, _PY_SPY_LIMIT_S))):
        file.write(stacks)
    else:
        file.write((read_proc(pid, "status") + read_proc(pid, "stack")).decode(errors="replace"))


def _python_stacks(pid: int, limit_s: float) -> str:
    """What `py-spy dump` says, or "" where it is missing, may not look or takes too long."""
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    if program is None:
        return ""
    command = [program, "dump", "--pid", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=limit_s, check=False)
    except (subprocess.TimeoutExpired, OSError):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _is_python(pid: int) -> bool:
    try:
        return "python" in os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return False


def _append(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(f"\n{line}\n")


def _say(message: str) -> None:
    """One line on stderr, whatever the rest of the program has made of sys.stderr."""
    os.write(2, f"\n{message}\n".encode())
    sys.stdout.flush()
