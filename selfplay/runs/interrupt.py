"""Ctrl-C and SIGTERM: the first asks the run to stop and save, the second ends the process at once.

The handler only sets a flag, so a blocking call goes on: the driver looks at the flag between the pieces of a step,
leaves the step, saves and ends with code 130.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType, TracebackType

from selfplay.runs.summary import ExitCode

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):
    """The run was asked to stop. Ends with exit code 130 once the state is saved."""


class StopRequest:
    """Installs the handlers while the `with` block runs; main thread only.

    Ray replaces the handler of SIGTERM when it starts: call `install()` again after `ray.init`.
    `on_force` runs before the process is ended by the second signal (kill the children, say); it must not block.
    """

    def __init__(self, on_force: Callable[[], None] | None = None) -> None:
        self.requested = False
        self.on_force = on_force
        self._previous: dict[signal.Signals, object] = {}

    def __enter__(self) -> StopRequest:
        self._previous = {number: signal.getsignal(number) for number in SIGNALS}
        self.install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # as getsignal gave it

    def install(self) -> None:
        """Set the handlers (again)."""
        for number in SIGNALS:
            signal.signal(number, self._handle)

    def raise_if_requested(self) -> None:
        """Raise Interrupted if a stop was asked for."""
        if self.requested:
            raise Interrupted("stopped on request")

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            if self.on_force is not None:
                self.on_force()
            os._exit(int(ExitCode.INTERRUPTED))
        self.requested = True
        # os.write: a handler may interrupt a print that is half way, and the buffered stream is not re-entrant.
        message = f"\n{signal.Signals(number).name}: stopping after saving; once more to end at once\n"
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, message.encode())
