"""A started session of the toy system; also used by programs that the tests start."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from selfplay.engine.config import ClusterConfig
from selfplay.engine.environment import apply
from selfplay.engine.heartbeat import Heartbeat
from selfplay.engine.session import Session
from selfplay.engine.startup import EpisodeSpec

HERE = Path(__file__).parent


def toy_session(
    log_dir: Path,
    token: str,
    *,
    cluster: ClusterConfig | None = None,
    frozen: bool = True,
    heartbeat: Heartbeat | None = None,
) -> Session:
    """A started session of the toy system on the untrained embedded backbone; by default on one rank."""
    cluster = cluster or ClusterConfig()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    apply(cluster, token)
    from selfplay.backbones.config import BackboneConfig
    from selfplay.backbones.prepare import prepare
    from selfplay.engine.policy import PolicySpec

    model = prepare(BackboneConfig())
    policy = PolicySpec(model, max_prompt=64, max_response=32, frozen_model=model if frozen else None)
    episodes = [
        EpisodeSpec("toy", "toy_episode:build", {"attempts": 3}),
        EpisodeSpec("failing", "toy_episode:build", {"attempts": 1, "fail": True}),
    ]
    heartbeat = heartbeat or Heartbeat()
    session = Session(policy, cluster, episodes, seed=7, run_token=token, log_dir=log_dir, heartbeat=heartbeat)
    session.start()
    session.set_step(1)
    return session
