"""Proposer rewards, pass@k and intervals."""

from __future__ import annotations

import math
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfplay.objectives.config import ProposerRewardConfig
from selfplay.objectives.intervals import bootstrap_difference, bootstrap_mean, fell, wilson
from selfplay.objectives.pass_at_k import mean_pass_at_k, pass_at_k
from selfplay.objectives.proposer_reward import PROPOSER_REWARDS, proposer_reward


def test_rewards_hand_worked():
    assert [PROPOSER_REWARDS["band"](m, 8) for m in (0, 1, 2, 8)] == [0, 1, 0, 0]
    assert [PROPOSER_REWARDS["variance"](m, 8) for m in (0, 2, 4, 8)] == [0, 0.75, 1, 0]
    assert PROPOSER_REWARDS["exponential"](0, 8) == pytest.approx(1 - math.exp(-8))
    assert PROPOSER_REWARDS["exponential"](1, 8) == pytest.approx(math.exp(-1) - math.exp(-8))
    assert PROPOSER_REWARDS["exponential"](8, 8) == 0


@given(st.sampled_from(sorted(PROPOSER_REWARDS)), st.integers(1, 32), st.data())
def test_rewards_lie_in_the_unit_interval(name, k, data):
    m = data.draw(st.integers(0, k))
    assert 0 <= proposer_reward(True, m, k, ProposerRewardConfig(name=name)) <= 1


def test_validity_aware_reward():
    aware = ProposerRewardConfig(validity_aware=True, invalid_penalty=0.2)
    assert proposer_reward(False, 0, 0, aware) == -0.2
    assert proposer_reward(True, 1, 8, aware) == 1.0
    assert proposer_reward(False, 0, 0, ProposerRewardConfig()) == 0.0


def test_impossible_counts_and_names_are_refused():
    with pytest.raises(ValueError, match="need 0 <= m <= K"):
        proposer_reward(True, 9, 8, ProposerRewardConfig())
    with pytest.raises(ValueError, match="unknown proposer reward 'bandit'; allowed: band, exponential, variance"):
        proposer_reward(True, 1, 8, ProposerRewardConfig(name="bandit"))


@given(st.integers(1, 60), st.data())
def test_pass_at_k_is_the_binomial_formula(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    assert pass_at_k(n, c, k) == pytest.approx(1 - comb(n - c, k) / comb(n, k), abs=1e-12)


def test_pass_at_k_is_stable_for_many_samples():
    assert pass_at_k(100_000, 1, 50_000) == pytest.approx(0.5)
    assert pass_at_k(5, 3, 1) == pytest.approx(0.6)


def test_mean_pass_at_k():
    assert mean_pass_at_k(4, [0, 4, 2], 1) == pytest.approx(0.5)
    assert mean_pass_at_k([2, 4], [1, 1], 2) == pytest.approx((1.0 + 0.5) / 2)
    for bad in [lambda: mean_pass_at_k(4, [], 1), lambda: mean_pass_at_k(4, [1], 5), lambda: pass_at_k(4, 5, 1)]:
        with pytest.raises(ValueError, match=r"pass@k|need 0"):
            bad()


def test_a_fall_is_told_from_noise():
    """By hand: p = 0.45, n = 144: sqrt(2 * 0.45 * 0.55 / 144) = 0.05863; times 1.6449: 0.0964."""
    assert not fell(0.498, 0.402, 144)
    assert fell(0.499, 0.401, 144)
    assert not fell(0.40, 0.50, 144)
    assert not fell(1.0, 1.0, 4)
    assert fell(1.0, 0.0, 4)
    with pytest.raises(ValueError, match="samples"):
        fell(0.5, 0.5, 0)


def test_wilson_published_value():
    interval = wilson(8, 10)  # 0.8, [0.4902, 0.9433]
    assert (interval.low, interval.high) == (pytest.approx(0.49016, abs=1e-4), pytest.approx(0.94333, abs=1e-4))
    assert wilson(0, 20).low == 0.0
    assert wilson(20, 20).high == 1.0
    with pytest.raises(ValueError, match="need 0 <= successes"):
        wilson(3, 2)


@given(st.integers(1, 200), st.data())
def test_wilson_holds_its_mean_and_shrinks(n, data):
    c = data.draw(st.integers(0, n))
    one, four = wilson(c, n), wilson(4 * c, 4 * n)
    assert one.low <= one.mean <= one.high
    assert four.high - four.low < one.high - one.low


def test_bootstrap_repeats_and_covers_the_mean():
    values = np.random.default_rng(0).random(40)
    first = bootstrap_mean(values, seed=1, resamples=2000)
    assert first == bootstrap_mean(values, seed=1, resamples=2000)
    assert first != bootstrap_mean(values, seed=2, resamples=2000)
    assert first.low < first.mean < first.high
    # the percentile interval of a mean is close to the normal one
    assert (first.high - first.low) / 2 == pytest.approx(1.96 * values.std() / math.sqrt(40), rel=0.1)


def test_paired_bootstrap_sees_a_small_constant_gain_that_unpaired_intervals_hide():
    before = np.random.default_rng(0).random(30)
    gain = bootstrap_difference(before + 0.05, before, resamples=1000)
    assert (gain.low, gain.high) == (pytest.approx(0.05), pytest.approx(0.05))
    with pytest.raises(ValueError, match="one shape"):
        bootstrap_difference([1.0], [1.0, 0.0])
    with pytest.raises(ValueError, match="non-empty"):
        bootstrap_mean([])
