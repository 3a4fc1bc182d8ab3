"""The toy system on two Ray nodes, of which one is lost in a phase: `python lost_node.py PHASE WHOLE FOLDER`.

Writes to FOLDER/outcome.json where the workers were, what agreed before the loss, and how the loss showed. An empty
PHASE loses nothing.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from nodes import two_nodes
from test_session import gap, tasks
from toy_session import toy_session

from selfplay.engine.config import ClusterConfig
from selfplay.engine.heartbeat import Heartbeat, Pulse
from selfplay.engine.processes import new_token
from selfplay.engine.reaper import start_guard


def main() -> None:
    phase, whole, folder = sys.argv[1], sys.argv[2] == "whole", Path(sys.argv[3])
    token = new_token()
    outcome: dict[str, Any] = {}
    lost = [0.0]
    with two_nodes() as nodes:
        guard = start_guard(token, os.getpid(), log_path=folder / "guard.log")
        armed = threading.Event()

        def listen(pulse: Pulse) -> None:
            if phase and armed.is_set() and pulse.phase == phase:
                armed.clear()
                lost[0] = time.monotonic()
                threading.Timer(0.02, nodes.lose_second, [whole]).start()

        try:
            cluster = ClusterConfig(nodes=2, ranks_per_node=1, ray_address=nodes.address)
            cluster.rollout.agent_workers = 2
            session = toy_session(folder, token, cluster=cluster, heartbeat=Heartbeat(listen))
            outcome["workers"] = nodes.workers()
            one_step(session)
            outcome["gap"] = gap(session)
            outcome["frozen"] = [
                s.text for s in session.generate([[5, 6, 7]], max_tokens=4, seed_key=(1,), frozen=True)
            ]
            armed.set()
            try:
                one_step(session)
                outcome["finished"] = True
            except Exception as error:
                outcome |= {"error": type(error).__name__, "message": str(error), "after_s": time.monotonic() - lost[0]}
            (folder / "outcome.json").write_text(json.dumps(outcome))
            session.close()
        finally:
            guard.finish()


def one_step(session: Any) -> None:
    session.step(tasks(8, sessions=4), lambda rows: [float(i % 3 - 1) for i in range(len(rows))], lr=1e-3)


if __name__ == "__main__":
    main()
