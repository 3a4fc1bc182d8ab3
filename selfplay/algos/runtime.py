"""What every system's run stands on: the engine's session under guard and watchdog, the console, the stop request.

    with Runtime(config, run_dir) as runtime:
        session = runtime.start(policy, episodes)
        ...
        runtime.between_steps()          # raises Interrupted once Ctrl-C was pressed

However the block ends, the session's processes, shared memory and temporary files are gone afterwards.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from selfplay.config.schema import Config
from selfplay.engine.environment import apply
from selfplay.engine.errors import RolloutFailed, WorkerLost
from selfplay.engine.heartbeat import Heartbeat, Pulse
from selfplay.engine.processes import new_token
from selfplay.engine.reaper import Guard, start_guard, sweep_stale
from selfplay.engine.session import EpisodeSpec, Session
from selfplay.engine.watchdog import Watchdog
from selfplay.runs.interrupt import Interrupted, StopRequest
from selfplay.runs.progress import Progress
from selfplay.runs.rundir import RunDir
from selfplay.runs.summary import ExitCode, Status, Summary, read_summary, write_summary

if TYPE_CHECKING:
    from selfplay.engine.policy import PolicySpec

log = logging.getLogger(__name__)


class Runtime:
    """Guard, watchdog, console and session of one launch. Use as a context manager."""

    def __init__(self, config: Config, run_dir: RunDir) -> None:
        self.config, self.run_dir = config, run_dir
        self.progress = Progress(config.logging)
        self.heartbeat = Heartbeat(self._show)
        self.summary = read_summary(run_dir.summary) or Summary(seed=config.seed)
        self._before_s, self._started = self.summary.seconds, time.monotonic()
        self._token = new_token()
        self._stop = StopRequest(on_force=self._force)
        self._stack = ExitStack()
        self._guard: Guard | None = None
        self._session: Session | None = None
        self._lost = ""
        self._iterations = 0  # outer ones of this launch

    def __enter__(self) -> Runtime:
        apply(self.config.cluster, self._token)
        self._stack.enter_context(self._stop)
        self._stack.enter_context(self.progress)
        for report in sweep_stale():
            log.info("remains of an earlier run: %s", report.describe())
        self._guard = start_guard(self._token, os.getpid(), log_path=self.run_dir.logs / "guard.log")
        self._stack.callback(self._guard.finish)
        self._stack.enter_context(self._guard.scratch())
        watchdog = Watchdog(
            self.heartbeat,
            self.config.cluster.watchdog.stall_s,
            self._token,
            self.run_dir.logs,
            self._on_stall,
            check_alive=self._check_alive,
            guard=self._guard,
            check_s=1.0,
        )
        self._stack.enter_context(watchdog)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._session, None  # from here on a missing worker is no loss
        if session is not None:
            try:
                with self.heartbeat.phase("stop"):
                    session.close()
            except Exception:
                log.exception("the session did not close; the guard ends its processes")
        self._stack.close()

    def start(self, policy: PolicySpec, episodes: Sequence[EpisodeSpec]) -> Session:
        """Bring up the engine."""
        session = Session(
            policy, self.config.cluster, episodes, self.config.seed, self._token, self.run_dir.logs, self.heartbeat
        )
        started = time.monotonic()
        try:
            session.start()
        finally:
            self._stop.install()  # Ray takes SIGTERM for itself
            self._session = session
        self.add_time("start", time.monotonic() - started)
        self.progress.note(f"engine up in {time.monotonic() - started:.0f} s")
        return session

    # ---------------------------------------------------------------- summary

    def add_time(self, phase: str, seconds: float) -> None:
        """Count seconds for a phase of the summary."""
        self.summary.timing_s[phase] = round(self.summary.timing_s.get(phase, 0.0) + seconds, 3)

    def write_summary(self) -> None:
        self.summary.seconds = self._before_s + time.monotonic() - self._started
        write_summary(self.run_dir.summary, self.summary)

    def finish(self, code: ExitCode, message: str = "") -> int:
        """Write how the run ended, show the table, and give the exit code."""
        self.summary.status, self.summary.message = Status.of(code), message
        self.write_summary()
        self.progress.finish(self.summary, str(self.run_dir.path))
        return int(code)

    # ---------------------------------------------------------------- stopping

    @property
    def stop_requested(self) -> bool:
        return self._stop.requested

    def between_steps(self) -> None:
        """Raise Interrupted when a stop was asked for."""
        self._stop.raise_if_requested()

    def iteration_done(self) -> None:
        """One more outer iteration is done, and not the last. Raises Interrupted when this launch was to do no more."""
        self._iterations += 1
        if self._iterations == self.config.stop_after:
            raise Interrupted(f"stop_after={self.config.stop_after} is reached")

    def _show(self, pulse: Pulse) -> None:
        amount = f" {pulse.done}/{pulse.total}" if pulse.total else ""
        self.progress.activity(f"{pulse.phase}{amount}")

    def _check_alive(self) -> str | None:
        session = self._session
        if session is None or self._stop.requested:  # a signal to the whole group ends the workers too
            return None
        try:
            session.check_alive()
        except WorkerLost as error:
            self._lost = str(error)
        return self._lost or None

    def _on_stall(self) -> None:
        """In the watchdog's thread, with the main thread stuck: write down how it ended.

        Metrics and the checkpoints that were due are on the disk already; the step under way cannot be saved.
        """
        pulse = self.heartbeat.pulse()
        self.summary.status = Status.WORKER_LOST if self._lost else Status.STALLED
        self.summary.message = self._lost or f"no progress for {pulse.silent_s:.0f} s in {pulse.describe()}"
        self.write_summary()

    def _force(self) -> None:
        if self._guard is not None:
            self._guard.clean_up(grace_s=0.0)


class Loop(Protocol):
    """A system's outer loop, as far as its ending goes."""

    saved_step: int

    def save(self) -> None: ...


def conclude(runtime: Runtime, loop: Loop, work: Callable[[], str]) -> int:
    """Do a loop's work and write how it ended; `work` returns why it ended early, if it did. The exit code."""
    try:
        return runtime.finish(ExitCode.FINISHED, work())
    except Interrupted as stop:
        loop.save()
        return runtime.finish(ExitCode.INTERRUPTED, str(stop))
    except WorkerLost as error:
        if runtime.stop_requested:  # the signal reached the workers as well: the last checkpoint is what there is
            return runtime.finish(ExitCode.INTERRUPTED, f"stopped on request; step {loop.saved_step} is saved")
        log.exception("a worker was lost")
        return runtime.finish(ExitCode.WORKER_LOST, f"{error}; resume=auto continues from step {loop.saved_step}")
    except RolloutFailed as error:
        log.exception("the rollout failed")
        return runtime.finish(ExitCode.FAILED, str(error))


def languages(sandbox: Any) -> str:
    """The language that a sandbox's prover judges, as prompts name it."""
    return "Verus" if sandbox.name == "verus" else "Dafny"
