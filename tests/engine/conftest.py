"""One engine launch for all tests of this folder: a start costs most of a minute."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from selfplay.engine.config import ClusterConfig
from selfplay.engine.environment import apply
from selfplay.engine.heartbeat import Heartbeat
from selfplay.engine.processes import new_token
from selfplay.engine.reaper import start_guard
from selfplay.engine.session import EpisodeSpec, Session

HERE = Path(__file__).parent


def toy_session(log_dir: Path, token: str, *, ranks: int = 1, frozen: bool = True) -> Session:
    """A started session of the toy system on the untrained embedded backbone."""
    cluster = ClusterConfig(ranks_per_node=ranks, frozen_servers=int(frozen))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    apply(cluster, token)
    from selfplay.backbones.config import BackboneConfig
    from selfplay.backbones.prepare import prepare
    from selfplay.engine.verl_config import PolicySpec

    model = prepare(BackboneConfig())
    policy = PolicySpec(model, max_prompt=64, max_response=32, frozen_model=model if frozen else None)
    episodes = [
        EpisodeSpec("toy", "toy_episode:build", {"attempts": 3}),
        EpisodeSpec("failing", "toy_episode:build", {"attempts": 1, "fail": True}),
    ]
    session = Session(policy, cluster, episodes, seed=7, run_token=token, log_dir=log_dir, heartbeat=Heartbeat())
    session.start()
    session.set_step(1)
    return session


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A live session with one rank and a frozen server; what it leaves behind is the guard's to clean."""
    folder = tmp_path_factory.mktemp("engine")
    token = new_token()
    guard = start_guard(token, os.getpid(), log_path=folder / "guard.log")
    try:
        live = toy_session(folder, token)
        try:
            live.save(folder / "initial")
            yield live
        finally:
            live.close()
    finally:
        guard.finish()


@pytest.fixture
def initial_state(session: Session) -> Path:
    """The checkpoint of the session as it started, whatever earlier tests did to it."""
    return session.log_dir / "initial"
