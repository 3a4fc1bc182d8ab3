"""Centred advantages against values worked by hand, and their properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfplay.objectives.centred import centred

REWARDS = st.lists(st.tuples(st.floats(-1, 1), st.integers(0, 3)), min_size=1, max_size=20)


def test_by_hand() -> None:
    """Means 0.5 and 0.3: group b holds 1, -0.1 and 0."""
    got = centred([1.0, 1.0, 0.0, -0.1, 0.0], ["a", "b", "a", "b", "b"])
    assert got == pytest.approx([0.5, 0.7, -0.5, -0.4, -0.3])


def test_no_division_by_the_spread() -> None:
    """GRPO would give (1, -1) for both."""
    assert centred([1.0, 0.0], [0, 0]) == pytest.approx([0.5, -0.5])
    assert centred([1.0, 0.9], [0, 0]) == pytest.approx([0.05, -0.05])


@given(REWARDS)
def test_every_group_sums_to_nothing(rows: list[tuple[float, int]]) -> None:
    rewards, groups = [r for r, _ in rows], [g for _, g in rows]
    values = centred(rewards, groups)
    for group in set(groups):
        assert abs(sum(v for v, g in zip(values, groups, strict=True) if g == group)) < 1e-9


@given(REWARDS, st.randoms())
def test_the_order_of_rows_does_not_matter(rows: list[tuple[float, int]], rng: object) -> None:
    order = list(range(len(rows)))
    rng.shuffle(order)  # type: ignore[attr-defined]
    values = centred([r for r, _ in rows], [g for _, g in rows])
    shuffled = centred([rows[i][0] for i in order], [rows[i][1] for i in order])
    assert shuffled == pytest.approx(values[order], abs=1e-12)


@given(REWARDS, st.floats(-1, 1))
def test_a_constant_changes_nothing(rows: list[tuple[float, int]], constant: float) -> None:
    groups = [g for _, g in rows]
    moved = centred([r + constant for r, _ in rows], groups)
    assert moved == pytest.approx(centred([r for r, _ in rows], groups), abs=1e-9)


@pytest.mark.parametrize(("rewards", "groups"), [([1.0], []), ([[1.0]], [0]), ([float("nan")], [0])])
def test_bad_input_is_refused(rewards: list[float], groups: list[int]) -> None:
    with pytest.raises(ValueError, match="reward"):
        centred(np.asarray(rewards), groups)
