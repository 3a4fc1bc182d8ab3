"""One engine launch for all tests of this folder: a start costs most of a minute."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from toy_session import toy_session

from selfplay.engine.processes import new_token
from selfplay.engine.reaper import start_guard
from selfplay.engine.session import Session


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A live session with one rank and a frozen server; what it leaves behind is the guard's to clean."""
    folder = tmp_path_factory.mktemp("engine")
    token = new_token()
    guard = start_guard(token, os.getpid(), log_path=folder / "guard.log")
    try:
        with guard.scratch():
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
