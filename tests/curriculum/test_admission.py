"""Admission: solved, novel, not absorbed; and the packing that follows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from selfplay.curriculum.config import NoveltyConfig
from selfplay.curriculum.curriculum import Curriculum
from selfplay.curriculum.node import Candidate, Outcome, Reason, node_id
from selfplay.curriculum.packing import close_pairs
from selfplay.curriculum.roots import Root


def root(curriculum, index=0):
    return curriculum.dag.node(curriculum.dag.roots[index]).id


def test_a_solved_novel_candidate_becomes_a_node(make, spec):
    pool = make(roots=2)
    text = spec("requires x > 3\n  ensures r * y != x - 1")
    admission = pool.admit(Candidate(text, (root(pool, 1), root(pool, 0)), "{ r := 0; }", 0.25))
    assert (admission.outcome, admission.reason, admission.node_id) == (Outcome.ADMITTED, None, node_id(text))
    node = pool.node(admission.node_id)
    assert (node.answer, node.depth, node.family) == ("{ r := 0; }", 1, "family1")
    assert pool.pass_rate(node.id) == pytest.approx(0.25)
    for parent in node.parents:
        assert pool.dag.edges[pool.dag.row_of[parent]].children.tolist() == [2]


@pytest.mark.parametrize(("answer", "rate"), [(None, 0.5), ("", 0.5), ("{ }", 0.0)])
def test_an_unsolved_candidate_is_rejected(make, spec, answer, rate):
    pool = make()
    admission = pool.admit(Candidate(spec("ensures r == x * x * x"), (root(pool),), answer, rate))
    assert (admission.outcome, admission.reason) == (Outcome.REJECTED, Reason.UNSOLVED)
    assert len(pool) == 4


def test_superficial_rewrites_are_named_as_such(make, spec):
    pool = make()
    renamed = "method N(a: int, b: int) returns (c: int)\n  ensures c == 2 * a + b"
    assert pool.admit(Candidate(renamed, (root(pool),), "{ }", 0.5)).reason is Reason.RENAME_ONLY
    constant = pool.admit(Candidate(spec("ensures r == 7 * x + y"), (root(pool),), "{ }", 0.5))
    assert (constant.reason, constant.similarity) == (Reason.STRUCTURAL_COPY, 1.0)
    assert constant.nearest == root(pool)


def test_a_near_duplicate_of_any_member_is_rejected(make, spec):
    pool = make()
    text = spec("ensures y >= 0 ==> r == x\n  ensures x <= y ==> r == x\n  ensures y < x ==> r == y")
    admission = pool.admit(Candidate(text, (root(pool, 0),), "{ }", 0.5))  # root 3 is the one it repeats
    assert admission.reason is Reason.POOL_DUPLICATE
    assert admission.nearest == root(pool, 3)
    assert admission.similarity > 0.72


def test_siblings_are_held_apart_within_a_step_only(make, spec):
    pool = make()
    first = spec("requires x > 3 && y != 0\n  ensures r * y != x - 1")
    second = spec("requires x > 3 && y != 0\n  ensures r * y < x + 5")
    assert pool.admit(Candidate(first, (root(pool),), "{ }", 0.5)).outcome is Outcome.ADMITTED
    assert pool.admit(Candidate(second, (root(pool),), "{ }", 0.5)).reason is Reason.SIBLING_DUPLICATE
    cousin = pool.admit(Candidate(second, (root(pool, 1),), "{ }", 0.5))
    assert cousin.outcome is Outcome.ADMITTED  # another parent's child is no sibling


def test_absorption_merges_the_pass_rate_into_the_parent(make, spec):
    pool = make()
    pool.observe_pass_rate(1.0, root(pool))
    near = spec("requires 0 <= x\n  ensures r == 2 * x + y")
    admission = pool.admit(Candidate(near, (root(pool),), "{ }", 0.5))
    assert (admission.outcome, admission.reason) == (Outcome.ABSORBED, Reason.NEAR_PARENT)
    assert admission.node_id == admission.nearest == root(pool)
    assert 0.60 <= admission.similarity <= 0.72
    assert len(pool) == 4
    assert pool.pass_rate(root(pool)) == pytest.approx((0.996 * 1.0 + 0.5) / 1.996)
    assert pool.outcomes == {"absorbed/near_parent": 1}


def test_equal_text_is_a_duplicate_even_with_the_gate_open(make, spec, open_gate):
    pool = make(roots=2, novelty=open_gate)
    text = pool.node(root(pool, 1)).text
    assert pool.admit(Candidate(text, (root(pool, 0),), "{ }", 0.5)).reason is Reason.POOL_DUPLICATE


def test_a_caller_supplied_structure_is_used(make, spec):
    pool = make()
    blind = Curriculum([Root("a", spec("ensures r == x"))], pool.dag.config, NoveltyConfig(), 0, lambda text: "same")
    admission = blind.admit(Candidate(spec("requires y != 1\n ensures x < r * y"), (root(blind),), "{ }", 0.5))
    assert admission.reason is Reason.STRUCTURAL_COPY


def test_mistakes_of_the_caller_are_errors(make, spec):
    pool = make()
    good = Candidate(spec("ensures r == 1"), (root(pool),), "{ }", 0.5)
    for bad, message in [
        (replace(good, pass_rate=1.5), "pass_rate"),
        (replace(good, parents=()), "at least one parent"),
        (replace(good, parents=("feedbeef",)), "unknown parent 'feedbeef'"),
    ]:
        with pytest.raises(ValueError, match=message):
            pool.admit(bad)


def random_clauses(rng: np.random.Generator) -> str:
    """One or two random clauses from a small vocabulary: many near-duplicates."""
    terms = ["x", "y", "r", "0", "1", "x + y", "2 * x", "r - y", "x * y"]
    relations = ["==", "<=", "<", "!="]
    parts = [
        f"ensures {rng.choice(terms)} {rng.choice(relations)} {rng.choice(terms)}" for _ in range(rng.integers(1, 4))
    ]
    return "\n  ".join(parts)


def test_the_pool_stays_a_packing_and_roots_stay(make, spec):
    pool = make()
    rng = np.random.default_rng(0)
    roots = {root(pool, i) for i in range(4)}
    for step in range(60):
        ids = sorted(pool.dag.row_of)
        for _ in range(12):
            parents = tuple(rng.choice(ids, 2, replace=False).tolist())
            pool.admit(Candidate(spec(random_clauses(rng)), parents, "{ }", float(rng.uniform(0.1, 1))))
        pool.step_end()
        assert roots <= set(pool.dag.row_of), step
    assert len(pool) > 60
    assert {o.split("/")[0] for o in pool.outcomes} == {"admitted", "absorbed", "rejected"}
    # all pairs by brute force, with the estimate that the gate uses
    sigs = pool.gate.index.signatures
    sims = np.array([(sigs == s).mean(1) for s in sigs])
    np.fill_diagonal(sims, 0)
    assert sims.max() <= 0.72
    assert pool.packing_violations() == []
    # the audit can fail: a twin put into the index behind the gate's back is found
    twin = pool.gate.index.add(sigs[10])
    assert (10, twin, 1.0) in close_pairs(pool.gate.index, np.arange(twin + 1), 0.72)
