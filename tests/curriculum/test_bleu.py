"""BLEU of all pairs at once against the plain definition, and the clusters from it."""

from __future__ import annotations

import math
import random
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfplay.curriculum.bleu import clusters, distances, repetition

WORDS = st.lists(st.sampled_from("abcde"), min_size=0, max_size=12).map(" ".join)


def plain_bleu(hypothesis: list[str], reference: list[str]) -> float:
    """Papineni et al.'s formula for one reference, with method 1 of Chen and Cherry."""
    if not set(hypothesis) & set(reference):
        return 0.0
    total = 0.0
    for n in range(1, 5):
        mine = Counter(tuple(hypothesis[i : i + n]) for i in range(len(hypothesis) - n + 1))
        theirs = Counter(tuple(reference[i : i + n]) for i in range(len(reference) - n + 1))
        matched = sum(min(count, theirs[gram]) for gram, count in mine.items())
        total += math.log((matched or 0.1) / max(1, sum(mine.values()))) / 4
    brevity = 1.0 if len(hypothesis) > len(reference) else math.exp(1 - len(reference) / len(hypothesis))
    return brevity * math.exp(total)


def plain_distance(first: str, second: str) -> float:
    a, b = first.split(), second.split()
    return min(1.0, max(0.0, 1 - (plain_bleu(a, b) + plain_bleu(b, a)) / 2))


def plain_clusters(texts: list[str], threshold: float) -> set[frozenset[int]]:
    """Average linkage by its definition: the two nearest clusters are joined while they are near enough."""
    groups = [[i] for i in range(len(texts))]
    d = [[plain_distance(a, b) for b in texts] for a in texts]
    while len(groups) > 1:
        pairs = [(i, j) for i in range(len(groups)) for j in range(i)]
        near = {(i, j): float(np.mean([d[a][b] for a in groups[i] for b in groups[j]])) for i, j in pairs}
        i, j = min(near, key=lambda pair: near[pair])
        if near[i, j] > threshold:
            break
        groups[j] += groups.pop(i)
    return {frozenset(group) for group in groups}


def random_tasks(n: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    words = [f"w{i}" for i in range(300)]
    themes = [[rng.choice(words) for _ in range(rng.randint(8, 60))] for _ in range(max(2, n // 5))]
    return [" ".join(w if rng.random() > 0.15 else rng.choice(words) for w in rng.choice(themes)) for _ in range(n)]


@given(st.lists(WORDS, min_size=2, max_size=6))
def test_distances_are_the_plain_definition_s(texts: list[str]) -> None:
    found = distances(texts)
    for i, first in enumerate(texts):
        for j, second in enumerate(texts):
            expected = 0.0 if i == j else plain_distance(first, second)
            assert found[i, j] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_clusters_are_the_plain_definition_s(seed: int) -> None:
    texts = random_tasks(40, seed)
    labels = clusters(texts)
    found = {frozenset(i for i, label in enumerate(labels) if label == name) for name in labels}
    assert found == plain_clusters(texts, 0.5)
    assert 1 < len(found) < len(texts)


def test_a_batch_larger_than_a_block_is_one_matrix() -> None:
    texts = random_tasks(600, 0)
    whole = distances(texts)
    for i, j in ((0, 599), (255, 256), (300, 10)):
        assert whole[i, j] == pytest.approx(plain_distance(texts[i], texts[j]), abs=1e-5)
    np.testing.assert_allclose(whole, whole.T)


def test_repetition_is_the_cluster_s_share() -> None:
    texts = ["compute the sum of the first ten primes please"] * 3 + [
        "a quite different question about circles and areas"
    ]
    assert repetition(texts) == [0.75, 0.75, 0.75, 0.25]
    assert repetition(["alone"]) == [1.0]
    assert repetition([]) == []


def test_2048_tasks_take_seconds() -> None:
    texts = random_tasks(2048, 1)
    started = time.monotonic()
    clusters(texts)
    assert time.monotonic() - started < 30  # the target; about 5 s on two idle cores
