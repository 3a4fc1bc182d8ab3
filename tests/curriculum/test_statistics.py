"""Decay, backup, pass rates, the cold-start chain and pruning."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfplay.curriculum.config import CurriculumConfig
from selfplay.curriculum.dag import Dag
from selfplay.curriculum.node import Node
from selfplay.curriculum.statistics import NodeStatistics


def chain(length: int, config: CurriculumConfig | None = None) -> Dag:
    """A root and its line of descent, rows 0 to length - 1."""
    dag = Dag(config or CurriculumConfig())
    for depth in range(length):
        dag.add(Node(f"n{depth}", f"text {depth}", "{ }", (f"n{depth - 1}",) if depth else (), "", depth, 0))
    return dag


events = st.lists(
    st.one_of(
        st.tuples(st.just("visit"), st.integers(0, 2), st.floats(0, 1)),
        st.tuples(st.just("stay"), st.integers(0, 2), st.just(0.0)),
        st.tuples(st.just("step"), st.integers(1, 40), st.just(0.0)),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(events)
def test_lazy_decay_equals_touching_every_node_at_every_step(script):
    lazy = NodeStatistics(decay=0.9, pass_rate_decay=0.996)
    eager = np.zeros((3, 3))  # n, s, n_stay of each node
    ratchet, total = np.zeros(3), 0.0
    for _ in range(3):
        lazy.add()
    for kind, arg, reward in script:
        if kind == "visit":
            lazy.add_visit(arg, 1.0, reward)
            lazy.count_visit()
            eager[arg, :2] += 1.0, reward
            ratchet[arg] = max(ratchet[arg], eager[arg, 1] / eager[arg, 0])
            total += 1
        elif kind == "stay":
            lazy.add_stay(arg)
            eager[arg, 2] += 1
        else:
            lazy.step += arg
            eager *= 0.9**arg
            total *= 0.9**arg
    rows = np.arange(3)
    for column, name in enumerate(["visits", "reward", "stays"]):
        assert lazy.current(getattr(lazy, name), rows) == pytest.approx(eager[:, column], rel=1e-9, abs=1e-12)
    assert lazy.ratchet[:3] == pytest.approx(ratchet)
    assert lazy.total_visits == pytest.approx(total)


def test_backup_hand_worked():
    dag = chain(3)
    dag.back_up((0, 1, 2), reward=1.0)
    dag.back_up((0, 1), reward=0.0)
    # n: node 2 one visit, node 1 that at 0.9 plus its own, the root 0.81 + 0.9
    assert dag.statistics.visits[:3] == pytest.approx([1.71, 1.9, 1.0])
    assert dag.statistics.reward[:3] == pytest.approx([0.81, 0.9, 1.0])
    assert dag.statistics.means(np.arange(3)) == pytest.approx([0.81 / 1.71, 0.9 / 1.9, 1.0])
    assert dag.statistics.ratchet[:3].tolist() == [1.0, 1.0, 1.0]


def test_backup_stops_at_the_depth_cap():
    dag = chain(9)
    dag.back_up(tuple(range(9)), reward=1.0)
    assert (dag.statistics.visits[:9] > 0).tolist() == [False, False] + [True] * 7
    assert dag.ancestry(8) == tuple(range(9))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.floats(0, 1), st.integers(0, 5)), max_size=60))
def test_means_stay_in_the_unit_interval_and_the_ratchet_never_falls(visits):
    dag = chain(5)
    before = np.zeros(5)
    for end, reward, steps in visits:
        dag.back_up(tuple(range(end + 1)), reward)
        dag.statistics.step += steps
        means = dag.statistics.means(np.arange(5))
        assert ((means >= 0) & (means <= 1 + 1e-12)).all()
        assert (dag.statistics.ratchet[:5] >= before).all()
        before = dag.statistics.ratchet[:5].copy()


def test_ratchet_holds_where_the_mean_falls():
    ratchet, empirical = chain(1), chain(1, CurriculumConfig(exploit="empirical"))
    for dag in (ratchet, empirical):
        for reward in (1.0, 0.0, 0.0, 0.0):
            dag.back_up((0,), reward)
    assert ratchet.values(np.array([0])).tolist() == [1.0]
    assert empirical.values(np.array([0])).tolist() == [0.25]


def test_pass_rate_is_a_mean_at_first_and_the_papers_recursion_in_the_long_run():
    stats = NodeStatistics(0.995, 0.996)
    row = stats.add()
    stats.observe_pass_rate(row, 0.5)
    assert stats.pass_rates(np.array([row]))[0] == pytest.approx(0.5)
    stats.observe_pass_rate(row, 1.0)
    assert stats.pass_rates(np.array([row]))[0] == pytest.approx((0.996 * 0.5 + 1.0) / 1.996)
    bare = 0.0
    for seen in [0.5, 1.0]:
        bare = 0.996 * bare + 0.004 * seen
    for _ in range(3000):
        stats.observe_pass_rate(row, 0.25)
        bare = 0.996 * bare + 0.004 * 0.25
    assert stats.pass_rates(np.array([row]))[0] == pytest.approx(bare, abs=1e-5)


def test_cold_start_chain():
    dag = chain(3)
    value = lambda row: float(dag.values(np.array([row]))[0])  # noqa: E731
    assert value(0) == 0.15
    dag.add(Node("other", "other", None, (), "", 0, 0))
    dag.statistics.observe_pass_rate(2, 0.6)
    assert value(2) == pytest.approx(0.6)  # its own
    assert value(1) == pytest.approx(0.6)  # its child's
    assert value(3) == pytest.approx(0.6)  # the mean of all positive ones
    dag.statistics.observe_pass_rate(1, 0.2)
    assert value(0) == pytest.approx(0.2)
    assert value(3) == pytest.approx(0.4)
    dag.back_up((0,), 0.0)
    assert value(0) == 0.0  # visited: no chain any more


def test_kinship_is_the_mean_value_of_living_neighbours():
    dag = chain(4)
    dag.link_kin(3, [1, 2])
    assert dag.kin[1, 0] == 3
    dag.back_up((1,), 1.0)
    dag.back_up((2,), 0.5)
    assert dag.kinship(np.array([3, 0])) == pytest.approx([0.75, 0.0])
    dag.remove(2)
    assert dag.kinship(np.array([3])) == pytest.approx([1.0])


def test_pruning_takes_visited_nodes_without_a_pass_and_keeps_their_children():
    dag = chain(3)
    stats = dag.statistics
    for row, seen in [(0, 0.0), (1, 0.0), (2, 0.5)]:
        stats.observe_pass_rate(row, seen)
        for _ in range(20):
            dag.back_up((row,), 0.0)
    assert dag.unsolvable().tolist() == [1]  # 0 is a root, 2 has passed
    dag.remove(1)
    assert dag.node(2).parents == ("n0",)
    assert dag.edges[0].children.tolist() == [2]
    assert dag.ancestry(2) == (0, 2)
    assert len(dag) == 2
    with pytest.raises(AssertionError, match="roots are never removed"):
        dag.remove(0)


def test_pruning_counts_discounted_visits():
    dag = chain(2)
    dag.statistics.observe_pass_rate(1, 0.0)
    for _ in range(20):
        dag.back_up((1,), 0.0)
    dag.statistics.step += 1
    assert dag.unsolvable().tolist() == []  # 20 * 0.995 is below 20


def test_impossible_settings_are_one_line():
    for settings_, message in [
        ({"exploit": "max"}, "exploit='max' is unknown; allowed: ratchet, empirical"),
        ({"root_ratio": 1.5}, "root_ratio=1.5 is out of range; allowed: 0.0 to 1.0"),
        ({"depth_cap": -1}, "depth_cap=-1 is out of range"),
    ]:
        with pytest.raises(ValueError, match=message.replace(".", r"\.")):
            CurriculumConfig(**settings_).check()
