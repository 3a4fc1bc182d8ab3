"""What can go wrong in the engine, in words a person can act on."""

from __future__ import annotations


class EngineError(RuntimeError):
    """The engine cannot go on; the message says why."""


class WorkerLost(EngineError):
    """A process of the run died. A new process with `resume=auto` continues from the last checkpoint."""


class RolloutFailed(EngineError):
    """A session raised: its own traceback is in the message. Nothing of its batch was trained on."""
