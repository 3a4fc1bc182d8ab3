"""Branch balance: the equations of section 4.5, its variants, and a branch that is missing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfplay.objectives.balance import BranchMass, branch_mass, branch_weights
from selfplay.objectives.config import BalanceConfig, RescueConfig

PROPOSER = BranchMass(tokens=100, rows=8, norm=4.0)
SOLVER = BranchMass(tokens=300, rows=24, norm=2.0)


def test_static_hand_worked():
    weights = branch_weights(PROPOSER, SOLVER, BalanceConfig(), valid_rate=1.0)
    assert (weights.scale_q, weights.scale_s) == (2.0, pytest.approx(400 / 600))
    assert (weights.w_q, weights.w_s, weights.t_q, weights.t_s) == (0.375, 1.0, 100, 300)
    assert weights.multiplier_q == 0.75


def test_rows_ignores_lengths():
    longer = replace(SOLVER, tokens=10**6)
    config = BalanceConfig(mode="rows")
    assert branch_weights(PROPOSER, SOLVER, config, 1.0) == branch_weights(PROPOSER, longer, config, 1.0)
    assert branch_weights(PROPOSER, SOLVER, config, 1.0).scale_q == 32 / 16


def test_adaptive_hand_worked():
    # r * scale_S * |U_S| / |U_Q| = 0.5 * (2/3) * 2 / 4 = 1/6
    assert branch_weights(PROPOSER, SOLVER, BalanceConfig(mode="adaptive"), 1.0).w_q == pytest.approx(1 / 6)
    loud = replace(PROPOSER, norm=400.0)
    assert branch_weights(loud, SOLVER, BalanceConfig(mode="adaptive"), 1.0).w_q == 0.125
    silent = replace(PROPOSER, norm=0.0)
    assert branch_weights(silent, SOLVER, BalanceConfig(mode="adaptive"), 1.0).w_q == 0.375


def test_rescue_floor_holds_only_below_its_threshold():
    config = BalanceConfig(rescue=RescueConfig(floor=0.9, threshold=0.3))
    assert branch_weights(PROPOSER, SOLVER, config, valid_rate=0.29).w_q == 0.9
    assert branch_weights(PROPOSER, SOLVER, config, valid_rate=0.30).w_q == 0.375
    generous = replace(config, w_q=2.0)
    assert branch_weights(PROPOSER, SOLVER, generous, valid_rate=0.0).w_q == 2.0
    assert branch_weights(PROPOSER, SOLVER, BalanceConfig(), valid_rate=0.0).w_q == 0.375  # off by default


def test_freeze_masks_one_branch_and_beats_the_rescue():
    config = BalanceConfig(rescue=RescueConfig(floor=1.0, threshold=1.0))
    frozen = branch_weights(PROPOSER, SOLVER, config, 0.0, freeze="proposer")
    assert (frozen.multiplier_q, frozen.w_s) == (0.0, 1.0)
    assert branch_weights(PROPOSER, SOLVER, config, 0.0, freeze="solver").multiplier_s == 0.0


@pytest.mark.parametrize("mode", ["static", "adaptive", "rows"])
def test_a_missing_branch_leaves_scales_at_one(mode):
    nothing = BranchMass(tokens=0, rows=0, norm=0.0)
    for pair in [(PROPOSER, nothing), (nothing, SOLVER), (nothing, nothing)]:
        weights = branch_weights(*pair, BalanceConfig(mode=mode), 0.0)
        assert (weights.scale_q, weights.scale_s, weights.w_q) == (1.0, 1.0, 0.375)


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_scales_equalise_token_mass(t_q, t_s):
    weights = branch_weights(replace(PROPOSER, tokens=t_q), replace(SOLVER, tokens=t_s), BalanceConfig(), 1.0)
    assert weights.scale_q * t_q == pytest.approx(weights.scale_s * t_s)
    assert weights.scale_q * t_q + weights.scale_s * t_s == pytest.approx(t_q + t_s)


def test_branch_mass_spreads_a_row_over_its_tokens():
    mass = branch_mass([3.0, -1.0], [4, 9])
    assert (mass.tokens, mass.rows) == (13, 2)
    assert mass.norm == pytest.approx(math.sqrt(4 * 9 + 9 * 1))
    with pytest.raises(ValueError, match="one advantage and one token count"):
        branch_mass([1.0], [1, 2])


def test_unknown_names_and_rates_are_refused():
    with pytest.raises(ValueError, match=r"balance mode 'tokens'; allowed: adaptive, rows, static"):
        branch_weights(PROPOSER, SOLVER, BalanceConfig(mode="tokens"), 1.0)
    with pytest.raises(ValueError, match=r"freeze 'both'; allowed: none, proposer, solver"):
        branch_weights(PROPOSER, SOLVER, BalanceConfig(), 1.0, freeze="both")
    with pytest.raises(ValueError, match="valid_rate"):
        branch_weights(PROPOSER, SOLVER, BalanceConfig(), 1.5)
