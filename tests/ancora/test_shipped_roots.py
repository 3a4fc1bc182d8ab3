"""The root specifications that ship: solvable, graded, and a held-out third that is no copy of the rest."""

from collections import Counter
from importlib.resources import files

import pytest

from selfplay.algos.ancora.grammar import name_key, shape_key, tokens
from selfplay.curriculum.roots import Root, load_roots
from selfplay.sandbox.dafny_lite import DafnyLite

PROVER = DafnyLite()


def shipped(name: str) -> list[Root]:
    return load_roots(str(files("selfplay.algos.ancora").joinpath("roots", f"{name}.jsonl")))


TRAIN, HELDOUT = shipped("train"), shipped("heldout")


@pytest.mark.parametrize("root", TRAIN + HELDOUT, ids=lambda root: root.name)
def test_root_is_sound_and_its_answer_verifies(root: Root) -> None:
    assert PROVER.check_spec(root.spec).verified
    assert root.answer
    assert PROVER.verify(root.spec, root.answer).verified


def test_counts_and_grades() -> None:
    assert len(TRAIN) >= 60
    assert len(HELDOUT) >= 30
    for roots in (TRAIN, HELDOUT):
        assert set(Counter(root.grade for root in roots)) == {1, 2, 3, 4, 5}
    assert {root.family for root in HELDOUT} == {root.family for root in TRAIN}


def test_no_specification_twice_whatever_its_names() -> None:
    assert len({name_key(root.spec) for root in TRAIN + HELDOUT}) == len(TRAIN) + len(HELDOUT)


def clause_grams(spec: str) -> set[tuple[str, ...]]:
    """Single tokens and pairs of neighbours in the clauses: how the curriculum's novelty gate compares."""
    words = tokens(spec.partition("\n")[2])
    return {tuple(words[i : i + n]) for n in (1, 2) for i in range(len(words) - n + 1)}


def similarity(one: Root, other: Root) -> float:
    mine, theirs = clause_grams(one.spec), clause_grams(other.spec)
    return len(mine & theirs) / len(mine | theirs)


def test_held_out_is_no_copy_of_train() -> None:
    structures = {shape_key(root.spec) for root in TRAIN}
    for root in HELDOUT:
        assert shape_key(root.spec) not in structures, root.name
        assert max(similarity(root, other) for other in TRAIN) <= 0.75, root.name


def test_train_roots_are_as_far_apart_as_the_pool_demands() -> None:
    for index, root in enumerate(TRAIN):
        for other in TRAIN[:index]:
            assert similarity(root, other) <= 0.72, (root.name, other.name)
