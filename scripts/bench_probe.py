"""`python bench_probe.py STAMPS key=value ...`: a run of `selfplay.train` here that notes when things happen.

Each line of STAMPS is `{"t": seconds since the process began, "what": name, "end": false or true}`. Only names that the
code calls anyway are wrapped; nothing is done in another order.
"""

from __future__ import annotations

import inspect
import json
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import psutil


class Stamps:
    """Appends to a file of stamps, from any thread."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._began = psutil.Process().create_time()
        self._said: set[str] = set()

    def mark(self, what: str, end: bool = True) -> None:
        self._file.write(json.dumps({"t": round(time.time() - self._began, 3), "what": what, "end": end}) + "\n")

    def once(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self.mark(what)

    def around(self, owner: Any, name: str, what: str, then: Callable[[], None] | None = None) -> None:
        """Stamp every call of `owner.name`; `then` is called after each."""
        original = getattr(owner, name)

        @wraps(original)
        def stamped(*args: Any, **kwargs: Any) -> Any:
            self.mark(what, end=False)
            result = original(*args, **kwargs)
            self.mark(what)
            if then is not None:
                then()
            return result

        setattr(owner, name, staticmethod(stamped) if inspect.ismethod(original) else stamped)


def watch_engine(stamps: Stamps) -> None:
    """Once the settings are checked: what follows would be imported next anyway."""
    from selfplay.algos.runtime import Runtime
    from selfplay.engine import session

    class StampedLoading(session.Loading):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._queue.add_done_callback(lambda _: stamps.mark("import queue"))
            self._trainer.add_done_callback(lambda _: watch_trainer(stamps))

    session.Loading = StampedLoading  # type: ignore[misc]
    show = Runtime._show

    def shown(self: Runtime, pulse: Any) -> None:
        if pulse.detail and pulse.done is None:
            stamps.once(pulse.detail)
        elif pulse.done and pulse.detail in ("rollouts", "sessions"):
            stamps.once("first answer")
        show(self, pulse)

    Runtime._show = shown  # type: ignore[method-assign]
    stamps.around(session, "start_ray", "ray")
    for name in ("start", "step", "save", "run_all", "sft"):
        stamps.around(session.Session, name, f"session {name}")


def watch_trainer(stamps: Stamps) -> None:
    """In the thread that has just imported the trainer."""
    stamps.mark("import trainer")
    from verl.trainer.ppo.v1 import trainer_base

    from selfplay.engine.agent_workers import AgentLoops
    from selfplay.engine.trainer import SelfPlayTrainer

    stamps.around(trainer_base.LLMServerManager, "create", "servers")  # begins when the ranks have their models
    stamps.around(SelfPlayTrainer, "send_weights", "weights")
    stamps.around(AgentLoops, "connect", "agent loops")


def main() -> int:
    stamps = Stamps(Path(sys.argv[1]))
    from selfplay import train
    from selfplay.config import load

    stamps.around(load, "load_config", "settings", then=lambda: watch_engine(stamps))
    return train.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
