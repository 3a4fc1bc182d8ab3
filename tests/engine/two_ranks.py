"""Three steps of the toy system on any number of ranks.

As a program, `python two_ranks.py N FOLDER STATE` takes them on N and then goes on from STATE, which others saved.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from test_session import tasks
from toy_session import toy_session

from selfplay.engine.config import ClusterConfig
from selfplay.engine.processes import new_token
from selfplay.engine.reaper import start_guard


def steps(session: Any) -> list[dict[str, Any]]:
    """What must not depend on the number of ranks, for three steps of 2, 3 and 1 tasks."""
    out = []
    for n in (2, 3, 1):
        result = session.step(tasks(n), lambda rows: [float(i % 3 - 1) for i in range(len(rows))], lr=1e-3)
        out.append(
            {
                "rows": len(result.rows),
                "responses": [row["response"] for row in result.rows],
                "grad_norm": result.metrics["actor/grad_norm"],
                "pearson": result.metrics["training/rollout_actor_probs_pearson_corr"],
            }
        )
    return out


def main() -> None:
    ranks, folder, other = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    token = new_token()
    guard = start_guard(token, os.getpid(), log_path=folder / "guard.log")
    try:
        session = toy_session(folder, token, cluster=ClusterConfig(ranks_per_node=ranks), frozen=False)
        (folder / "steps.json").write_text(json.dumps(steps(session)))
        session.save(folder / "state")
        session.export(folder / "exported")
        session.load(other, step=4)
        session.save(folder / "taken_over")
        (folder / "further.json").write_text(json.dumps(steps(session)))
        session.close()
    finally:
        guard.finish()


if __name__ == "__main__":
    main()
