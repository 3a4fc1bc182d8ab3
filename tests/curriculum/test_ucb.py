"""Selection: scores by hand, quotas, repulsion, windows, descent, determinism."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfplay.curriculum.config import CurriculumConfig, ZpdConfig
from selfplay.curriculum.node import Candidate, Direction, SeedKind
from selfplay.curriculum.ucb import BatchSelector, zpd_bounds, zpd_kernel

CHILD_CLAUSES = (
    "requires x > 3 && y != 0\n  ensures r * y != x - 1",
    "ensures r % 2 == 0 || r < x * y",
    "requires y == 17\n  ensures r > 5 ==> x != r",
    "ensures (x + 1) * (y - 1) <= 9 - r",
)


def with_children(make, spec, count=1, **settings):
    """A pool of one root with `count` children of pass rate 0.5; returns it with the ids of root and children."""
    pool = make(roots=1, **settings)
    root = pool.dag.node(0).id
    children = []
    for clauses in CHILD_CLAUSES[:count]:
        admission = pool.admit(Candidate(spec(clauses), (root,), "{ }", 0.5))
        children.append(admission.node_id)
    assert None not in children
    return pool, root, children


def test_root_score_hand_worked(make):
    pool = make(roots=2, kin_weight=0.0, crossover=0.0)
    first = pool.select(1, 1)[0]
    pool.record(first, [1.0])
    selector = BatchSelector(pool.dag, None, pool.rng)
    visited = pool.dag.row_of[first.node_id]
    bonus = [0.5 * math.sqrt(math.log(2) / (1 + (row == visited))) for row in (0, 1)]
    values = [1.0 if row == visited else 0.15 for row in (0, 1)]
    assert selector._root_scores == pytest.approx(np.array(values) + bonus)


def test_stay_and_child_scores_hand_worked(make, spec):
    pool, _root, (_child,) = with_children(make, spec, kin_weight=0.0, backup_discount=0.5)
    stats, dag = pool.dag.statistics, pool.dag
    dag.back_up((0,), 0.5)
    dag.back_up((0, 1), 1.0)
    dag.edges[0].count(1, stats.decay, stats.step)
    stats.add_stay(0)
    stats.add_stay(0)
    choice = BatchSelector(dag, None, pool.rng)._choice(0)
    parent = math.log(1.5 + 1)
    assert choice.stay == pytest.approx(1.0 / 1.5 + 0.5 * math.sqrt(parent / 3))
    assert choice.scores == pytest.approx([1.0 + 0.5 * math.sqrt(parent / 2)])


@pytest.mark.parametrize(("ratio", "batch", "roots"), [(0.5, 8, 4), (1.0, 8, 8), (0.0, 8, 0), (0.5, 5, 3)])
def test_root_quota(make, ratio, batch, roots):
    kinds = Counter(s.kind for s in make(root_ratio=ratio).select(batch, 2))
    assert kinds[SeedKind.ROOT] == roots
    assert kinds[SeedKind.DESCENDED] == batch - roots


def test_no_descent_never_leaves_the_roots(make, spec):
    pool, root, _ = with_children(make, spec, 3, root_ratio=1.0)
    assert {s.node_id for s in pool.select(16, 1)} == {root}


def test_repulsion_spreads_a_batch_over_roots(make):
    spread = Counter(s.node_id for s in make(root_ratio=1.0).select(8, 1))
    assert sorted(spread.values()) == [2, 2, 2, 2]
    heaped = Counter(s.node_id for s in make(root_ratio=1.0, batch_repulsion=0.0).select(8, 1))
    assert sorted(heaped.values()) == [8]


def test_descent_reaches_children_and_records_its_path(make, spec):
    pool, root, children = with_children(make, spec, 3, root_ratio=0.0)
    seeds = pool.select(6, 1)
    reached = {s.node_id for s in seeds}
    assert reached > set(children)  # repulsion on edges, and on staying once every child was taken
    assert all(s.path == ((root,) if s.node_id == root else (root, s.node_id)) for s in seeds)
    for seed in seeds:
        pool.record(seed, [0.5])
    edges = pool.dag.edges[0].visits(1.0, 0)
    assert edges.sum() == sum(s.node_id != root for s in seeds)
    assert pool.dag.statistics.stays[0] == sum(s.node_id == root for s in seeds)


def test_descend_margin_holds_a_descent_back(make, spec):
    pool, root, _ = with_children(make, spec, 1, root_ratio=0.0, descend_margin=10.0)
    assert {s.node_id for s in pool.select(4, 1)} == {root}


def test_depth_cap_ends_a_descent(make, spec):
    pool, _root, (child,) = with_children(make, spec, 1, root_ratio=0.0, descend_margin=0.0, depth_cap=1)
    grandchild = pool.admit(Candidate(spec(CHILD_CLAUSES[1]), (child,), "{ }", 1.0)).node_id
    pool.dag.back_up((pool.dag.row_of[grandchild],), 1.0)
    assert max(len(s.path) for s in pool.select(8, 1)) == 2


def test_the_best_rewarded_root_is_preferred(make):
    pool = make(root_ratio=1.0, exploration=0.0, kin_weight=0.0)
    ids = [pool.dag.node(r).id for r in range(4)]
    for _ in range(4):
        for seed in pool.select(4, 1):
            pool.record(seed, [1.0 if seed.node_id == ids[2] else 0.0])
        pool.step_end()
    assert pool.select(1, 1)[0].node_id == ids[2]


@given(st.floats(0, 1), st.floats(0, 1))
def test_zpd_window(ability, rate):
    centered = CurriculumConfig()
    low, high = zpd_bounds(ability, centered)
    assert 0 <= low <= ability <= high <= 1
    assert high - low <= 0.4 + 1e-12
    above = CurriculumConfig(zpd=ZpdConfig(window="above"))
    assert zpd_bounds(ability, above) == (ability, min(1.0, ability + 0.4))
    clipped = CurriculumConfig(zpd=ZpdConfig(window="above", upper_margin=0.1))
    assert zpd_bounds(ability, clipped)[1] == pytest.approx(min(1.0, ability + 0.3))
    kernel = float(zpd_kernel(np.array([rate]), ability, centered)[0])
    assert 0 <= kernel <= 1
    assert (kernel > 0) == (abs(rate - ability) < 0.2) or abs(abs(rate - ability) - 0.2) < 1e-9


def test_roots_outside_the_window_are_left_out_unless_none_is_inside(make):
    pool = make(root_ratio=1.0)
    ids = [pool.dag.node(r).id for r in range(4)]
    for identifier, rate in zip(ids, [0.0, 0.5, 1.0, 0.5], strict=True):
        pool.observe_pass_rate(rate, identifier)
    pool.step_end()
    assert pool.ability == 0.5
    assert {s.node_id for s in pool.select(8, 1)} == {ids[1], ids[3]}
    pool.ability = 0.25  # [0.05, 0.45] holds none
    assert {s.node_id for s in pool.select(8, 1)} == set(ids)


def test_direction(make):
    pool = make(roots=2, root_ratio=1.0)
    ids = [pool.dag.node(r).id for r in range(2)]
    assert {s.direction for s in pool.select(2, 1)} == {Direction.UP}  # nothing known yet
    pool.observe_pass_rate(0.6, ids[0])
    pool.observe_pass_rate(0.5, ids[1])
    pool.step_end()
    assert {s.node_id: s.direction for s in pool.select(2, 1)} == {ids[0]: Direction.UP, ids[1]: Direction.DOWN}
    down = make(direction="down")
    assert {s.direction for s in down.select(4, 1)} == {Direction.DOWN}


def test_second_parents_take_their_share_and_are_never_the_seed(make):
    pool = make(crossover=0.5)
    for seed in pool.select(16, 8):
        assert seed.second_parents[:4] == (None,) * 4
        others = seed.second_parents[4:]
        assert None not in others
        assert seed.node_id not in others
    assert make(crossover=0.0).select(1, 4)[0].second_parents == (None,) * 4
    assert make(roots=1).select(1, 4)[0].second_parents == (None,) * 4  # no other member


def test_operator_aware_arms_learn_which_operator_pays(make):
    pool = make(roots=2, operators="aware", root_ratio=1.0, ucb_stat_decay=1.0)
    seed = pool.select(1, 4)[0]
    assert sum(s is not None for s in seed.second_parents) == 2  # untried operators take turns
    pays = [0.0 if second is not None else 1.0 for second in seed.second_parents]
    for _ in range(10):
        pool.record(seed, pays)
    row = pool.dag.row_of[seed.node_id]
    visits, rewards = pool.dag.statistics.operators(row)
    assert (visits.tolist(), rewards.tolist()) == ([20.0, 20.0], [20.0, 0.0])
    selector = BatchSelector(pool.dag, None, pool.rng)
    assert selector._crossed(row, 4) == 0  # 1 + 0.5 sqrt(ln 41 / 21) against 0 + the same
    other = next(r for r in (0, 1) if r != row)
    assert selector._crossed(other, 4) == 2  # an arm is a seed with an operator: another seed knows nothing of it


def test_crossover_credits_both_paths(make):
    pool = make(roots=2, crossover=0.5, root_ratio=1.0)
    seed = pool.select(1, 4)[0]
    pool.record(seed, [0.0, 0.0, 1.0, 0.0])
    first = pool.dag.row_of[seed.node_id]
    stats = pool.dag.statistics
    assert (stats.visits[first], stats.reward[first]) == (1.0, 0.25)
    assert (stats.visits[1 - first], stats.reward[1 - first]) == (0.5, 0.25)  # 2 of 4 proposals, one rewarded
    assert stats.total_visits == 1.0


def test_record_refuses_what_does_not_fit(make):
    pool = make(crossover=0.0)
    seed = pool.select(1, 2)[0]
    for rewards, message in [([1.0], "expected 2 rewards"), ([2.0, 0.0], "at most 1"), ([math.nan, 0.0], "at most 1")]:
        with pytest.raises(ValueError, match=message):
            pool.record(seed, rewards)
    pool.record(seed, [-0.5, 1.0])  # a validity penalty is no negative utility
    assert pool.dag.statistics.reward.sum() == 0.5
    with pytest.raises(ValueError, match="at least one seed"):
        pool.select(0, 4)


def test_ability_is_an_ema_of_step_means(make):
    pool = make()
    seed = pool.select(1, 2)[0]
    pool.record(seed, [0.0, 0.0], [0.2, 0.6])
    pool.step_end()
    assert pool.ability == pytest.approx(0.4)
    assert pool.pass_rate(seed.node_id) == pytest.approx(0.4)
    pool.observe_pass_rate(0.9)
    pool.step_end()
    assert pool.ability == pytest.approx(0.45)
    pool.step_end()  # a step without any observation
    assert pool.ability == pytest.approx(0.45)


def test_selection_reads_and_never_writes_statistics(make, spec):
    pool, _, _ = with_children(make, spec, 3, crossover=0.0)
    before = pool.pool_hash()
    pool.select(8, 4)
    assert pool.pool_hash() == before


def test_equal_histories_give_equal_pools_and_other_seeds_other_draws(make):
    def play(seed):
        pool = make(seed=seed)
        for _ in range(5):
            for chosen in pool.select(4, 4):
                pool.record(chosen, [1.0, 0.0, 0.0, 0.0], [0.5])
            pool.step_end()
        return pool.pool_hash()

    assert play(0) == play(0)
    assert play(0) != play(1)
