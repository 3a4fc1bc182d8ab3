"""Admission to the DAG: solved, novel, and not absorbed by a parent (ANCORA sections 4.4, G.2 and G.8)."""

from __future__ import annotations

from selfplay.curriculum.dag import Dag
from selfplay.curriculum.node import Admission, Candidate, Node, Outcome, Reason, node_id
from selfplay.curriculum.novelty import Near, NoveltyGate


def admit(dag: Dag, gate: NoveltyGate, candidate: Candidate, siblings: list[int]) -> Admission:
    """Decide on a candidate and carry the decision out.

    In order: an unsolved candidate is rejected; a superficial rewrite of a parent, a near-duplicate of a pool member or
    of a sibling is rejected; one with similarity >= `absorb_min_sim` to a parent is absorbed: the parent's pass rate
    takes in the candidate's; the rest becomes a node with edges from all of its parents.

    Args:
        siblings: rows admitted earlier in this step that share a parent with the candidate.

    Raises:
        ValueError: a pass rate outside [0, 1], no parent, or an unknown parent.
    """
    if not 0.0 <= candidate.pass_rate <= 1.0:
        raise ValueError(f"pass_rate must lie in [0, 1], got {candidate.pass_rate}")
    parents = [(row, dag.node(row).text) for row in parent_rows(dag, candidate)]
    if not candidate.answer or candidate.pass_rate == 0.0:
        return Admission(Outcome.REJECTED, Reason.UNSOLVED, None, 0.0, None)
    if node_id(candidate.text) in dag.row_of:  # the same text, whatever the similarity limits are
        return Admission(Outcome.REJECTED, Reason.POOL_DUPLICATE, None, 1.0, node_id(candidate.text))
    verdict = gate.check(candidate.text, parents, siblings)
    nearest = None if verdict.row is None else dag.node(verdict.row).id
    if verdict.reason is not None:
        return Admission(Outcome.REJECTED, verdict.reason, None, verdict.similarity, nearest)
    assert verdict.near is not None, "a candidate that passes the gate was compared with the pool"
    similarity, row = max((gate.index.similarity(verdict.near.signature, r), -r) for r, _ in parents)
    if similarity >= dag.config.absorb_min_sim:
        parent = dag.node(-row)
        dag.statistics.observe_pass_rate(-row, candidate.pass_rate)
        return Admission(Outcome.ABSORBED, Reason.NEAR_PARENT, parent.id, similarity, parent.id)
    return Admission(Outcome.ADMITTED, None, _insert(dag, gate, candidate, verdict.near), verdict.similarity, nearest)


def parent_rows(dag: Dag, candidate: Candidate) -> list[int]:
    """Rows of a candidate's parents, each once."""
    if not candidate.parents:
        raise ValueError("a candidate needs at least one parent")
    unknown = [p for p in candidate.parents if p not in dag.row_of]
    if unknown:
        raise ValueError(f"unknown parent {unknown[0]!r}")
    return [dag.row_of[p] for p in dict.fromkeys(candidate.parents)]


def _insert(dag: Dag, gate: NoveltyGate, candidate: Candidate, near: Near) -> str:
    first = dag.node(dag.row_of[candidate.parents[0]])
    node = Node(
        id=node_id(candidate.text),
        text=candidate.text,
        answer=candidate.answer,
        parents=tuple(dict.fromkeys(candidate.parents)),
        family=first.family,
        depth=first.depth + 1,
        born=dag.statistics.step,
    )
    insert(dag, gate, node, near)
    dag.statistics.observe_pass_rate(dag.row_of[node.id], candidate.pass_rate)
    return node.id


def insert(dag: Dag, gate: NoveltyGate, node: Node, near: Near) -> None:
    """Add a node to the graph and to the index, in the same row, and link it to its kin."""
    row = dag.add(node)
    indexed = gate.index.add(near.signature)
    assert row == indexed, "graph and index are out of step"
    dag.link_kin(row, near.kin(dag.config.kin_neighbours, dag.config.kin_min_sim))
