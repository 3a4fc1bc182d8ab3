"""Ray's start on a machine that is too busy for Ray's own limit is tried again, a few times; another failure is not."""

from __future__ import annotations

from typing import Any

import pytest
import ray

from selfplay.engine.config import ClusterConfig
from selfplay.engine.startup import RAY_ATTEMPTS, start_ray

SLOW = Exception("The current node timed out during startup. This could happen because ...")


@pytest.mark.parametrize(("error", "tries"), [(SLOW, RAY_ATTEMPTS), (ValueError("another"), 1)])
def test_a_slow_start_is_tried_again(monkeypatch: pytest.MonkeyPatch, error: Exception, tries: int) -> None:
    asked: list[dict[str, Any]] = []

    def fails(**options: Any) -> None:
        asked.append(options)
        raise error

    monkeypatch.setattr(ray, "init", fails)  # a machine that is really that slow cannot be made for a test
    with pytest.raises(type(error), match=str(error)[:20]):
        start_ray(ClusterConfig(), {})
    assert len(asked) == tries
