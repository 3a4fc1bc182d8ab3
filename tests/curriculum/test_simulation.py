"""What ANCORA reports of its curriculum, seen again in a simulation without a model.

The world's assumptions are in `selfplay.curriculum.simulate`. Two remarks on how far these results carry. The empirical
exploit term collapses here only with the difficulty window opened wide: with the default window both modes keep to what
the Solver masters and stay valid. And the ratchet pays for its validity: its Proposer reward falls towards 0.
"""

from __future__ import annotations

import numpy as np
import pytest

from selfplay.curriculum.config import CurriculumConfig, ZpdConfig
from selfplay.curriculum.simulate import Simulation, World

NO_WINDOW = ZpdConfig(width=2.0)
DRIFTING = World(repulsion=0.1, learning=0.03)
SMALL = World(roots=6, variants=8)


def late(history, name, steps=20):
    return float(np.mean([getattr(step, name) for step in history[-steps:]]))


@pytest.mark.parametrize("seed", [0, 1])
def test_empirical_exploit_collapses_where_the_ratchet_stays_valid(seed):
    ratchet = Simulation(DRIFTING, CurriculumConfig(zpd=NO_WINDOW), seed).run(140)
    empirical = Simulation(DRIFTING, CurriculumConfig(exploit="empirical", zpd=NO_WINDOW), seed).run(140)
    assert late(ratchet, "valid_rate") > 0.7
    assert late(empirical, "valid_rate") < 0.3  # the collapse alarm's threshold
    assert late(empirical, "health") < 0.5 < late(ratchet, "health")


@pytest.mark.parametrize("seed", [0, 1])
def test_roots_alone_are_exhausted_while_the_mix_grows_on(seed):
    roots_only = Simulation(SMALL, CurriculumConfig(root_ratio=1.0), seed).run(100)
    mixed = Simulation(SMALL, CurriculumConfig(), seed).run(100)
    assert sum(s.admitted for s in roots_only[-20:]) <= 2
    assert sum(s.admitted for s in mixed[-20:]) >= 10
    assert mixed[-1].pool > 2 * roots_only[-1].pool
    reachable = SMALL.roots * (1 + 2 * SMALL.variants)  # the roots and their neighbours, up and down
    assert roots_only[-1].pool <= reachable < mixed[-1].pool


def test_the_simulated_pool_is_a_packing_and_repeats():
    first, second = (Simulation(SMALL, CurriculumConfig(), 3) for _ in range(2))
    assert first.run(15) == second.run(15)
    assert first.curriculum.pool_hash() == second.curriculum.pool_hash()
    assert first.curriculum.packing_violations() == []
