"""Packing rows into micro-batches by length."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

CODE = """
import os
os.environ.update(VERL_PLATFORM="cpu", VERL_USE_EXTERNAL_MODULES="selfplay.engine.cpu_platform")
"""


@pytest.fixture(scope="module")
def pack():  # type: ignore[no-untyped-def]
    """Imported late: verl wants its platform chosen first."""
    from selfplay.engine.config import ClusterConfig
    from selfplay.engine.environment import apply

    apply(ClusterConfig(), "token-of-a-test")
    from selfplay.engine.micro_batches import pack

    return pack


@given(st.lists(st.integers(1, 300), min_size=1, max_size=80), st.integers(1, 2000))
def test_every_row_once_and_within_the_limit(pack, lengths: list[int], limit: int) -> None:  # type: ignore[no-untyped-def]
    groups = pack(lengths, limit)
    assert sorted(row for group in groups for row in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or len(group) * max(lengths[row] for row in group) <= limit


@given(st.lists(st.integers(1, 300), min_size=9, max_size=80), st.integers(1, 9))
def test_ranks_can_agree_on_a_number(pack, lengths: list[int], number: int) -> None:  # type: ignore[no-untyped-def]
    groups = pack(lengths, 10_000, at_least=number)
    assert len(groups) >= number
    assert all(groups)
    assert sorted(row for group in groups for row in group) == list(range(len(lengths)))


def test_similar_lengths_go_together(pack) -> None:  # type: ignore[no-untyped-def]
    assert pack([10, 90, 11, 100], 200) == [[0, 2], [1, 3]]
    with pytest.raises(ValueError, match="2 rows do not make 3"):
        pack([5, 5], 100, at_least=3)


def test_verl_still_has_no_hook_for_micro_batching() -> None:
    """When this fails, verl takes a micro-batching function: use it, and drop the patch."""
    code = CODE + (
        "import inspect\n"
        "from verl.workers.engine.fsdp.transformer_impl import FSDPEngine\n"
        "source = inspect.getsource(FSDPEngine.forward_backward_batch)\n"
        "assert 'prepare_micro_batches(' in source\n"
        "assert 'self.prepare_micro_batches' not in source\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=300)
