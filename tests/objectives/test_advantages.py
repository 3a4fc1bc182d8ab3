"""Mean-normalised advantages against hand-worked values and their invariants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfplay.objectives.advantages import grouped, mean_normalised


def test_hand_worked_group():
    # mean 0.25: the one success gets (1 - 0.25) / 0.25 = 3, each failure -1
    assert mean_normalised([1, 0, 0, 0]) == pytest.approx([3, -1, -1, -1], rel=1e-4)


def test_all_zero_and_all_one_carry_no_signal():
    assert mean_normalised([0, 0, 0]).tolist() == [0, 0, 0]
    assert mean_normalised([1, 1]).tolist() == [0, 0]


def test_no_division_by_the_deviation():
    # same spread, larger mean: smaller advantages
    assert mean_normalised([1.0, 0.5])[0] < mean_normalised([0.5, 0.0])[0]


def test_penalties_never_flip_the_order():
    advantages = mean_normalised([1.0, -0.5, -0.5, -0.5])  # mean below 0; by hand: 1.125 / 0.25, -0.375 / 0.25
    assert advantages == pytest.approx([4.5, -1.5, -1.5, -1.5], rel=1e-4)
    assert advantages[0] > 0 > advantages[1]
    assert mean_normalised([-0.5, -0.1]).tolist() == pytest.approx([-0.2, 0.2])  # nothing earned: centred alone


@given(st.lists(st.one_of(st.just(0.0), st.just(1.0), st.just(-1 / 3)), min_size=2, max_size=16))
def test_a_mean_near_zero_does_not_blow_up(rewards):
    """One success, three penalties of a third: the mean is a rounding error above 0."""
    assert np.abs(mean_normalised([1.0, -1 / 3, -1 / 3, -1 / 3])).max() == pytest.approx(4.0, rel=1e-4)
    assert np.abs(mean_normalised(rewards)).max() <= 1.5 * len(rewards)


@pytest.mark.parametrize("bad", [[], [[1.0]], [float("nan")]])
def test_refuses_what_is_no_group(bad):
    with pytest.raises(ValueError, match="rewards must be"):
        mean_normalised(bad)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=16))
def test_sum_is_zero_and_order_is_kept(rewards):
    advantages = mean_normalised(rewards)
    assert abs(advantages.sum()) < 1e-6 * max(1.0, float(np.abs(advantages).max()))
    order = np.argsort(rewards, kind="stable")
    assert (np.diff(advantages[order]) >= -1e-9).all()


@given(st.permutations(range(6)))
def test_grouped_does_not_depend_on_the_order_of_rows(order):
    rewards = np.array([1, 0, 0, 1, 1, 0], dtype=float)
    roles = ["proposer", "proposer", "solver", "solver", "solver", "solver"]
    groups = ["a", "a", "a", "a", "b", "b"]
    expected = np.array([1, -1, -1, 1, 1, -1], dtype=float)  # the proposer's "a" is not the solver's "a"
    got = grouped(rewards[order], [roles[i] for i in order], [groups[i] for i in order])
    assert got == pytest.approx(expected[order], rel=1e-4)


def test_grouped_refuses_ragged_input_and_unknown_estimators():
    with pytest.raises(ValueError, match="one role and one group"):
        grouped([1.0, 0.0], ["s"], ["a", "a"])
    with pytest.raises(ValueError, match="unknown advantage 'grpo'; allowed: mean_normalised"):
        grouped([1.0], ["s"], ["a"], estimator="grpo")
