"""Clusters of near-equal tasks in a batch: average linkage over 1 - BLEU (AnchorLoop's repetition penalty).

BLEU is the sentence's, of up to 4-grams, with the usual smoothing of empty matches (epsilon 0.1: method 1 of Chen and
Cherry, 2014) and the brevity penalty; the two directions of a pair are averaged, since BLEU is not symmetric. All
pairs at once: clipped counts min(a, b) are dot products of 0/1 rows with a column for the first, second, ... occurrence
of an n-gram, and those are sparse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import csr_matrix
from scipy.spatial.distance import squareform

ORDERS = 4
SMOOTHING = 0.1
BLOCK = 256  # rows at once: bounds the memory beyond the result to a few of these times the batch

Matrix = NDArray[np.float32]


def distances(texts: Sequence[str]) -> Matrix:
    """1 - BLEU of every pair of texts, shape (B, B): symmetric, 0 on the diagonal. Words are split at blanks."""
    words = [text.lower().split() for text in texts]
    lengths = np.array([len(w) for w in words], dtype=np.float64)
    similarity = np.zeros((len(texts), len(texts)), dtype=np.float32)
    grams = [_occurrences(words, n) for n in range(1, ORDERS + 1)]
    for start in range(0, len(texts), BLOCK):
        rows = slice(start, min(start + BLOCK, len(texts)))
        similarity[rows] = _bleu(grams, lengths, rows)
    out = 1 - (similarity + similarity.T) / 2
    np.fill_diagonal(out, 0.0)
    return np.clip(out, 0.0, 1.0)


def _occurrences(words: Sequence[Sequence[str]], n: int) -> csr_matrix:
    """0/1 matrix: row = text, column = the k-th occurrence of an n-gram in it."""
    columns: dict[tuple[tuple[str, ...], int], int] = {}
    rows, places = [], []
    for row, text in enumerate(words):
        seen: Counter[tuple[str, ...]] = Counter()
        for i in range(len(text) - n + 1):
            gram = tuple(text[i : i + n])
            seen[gram] += 1
            rows.append(row)
            places.append(columns.setdefault((gram, seen[gram]), len(columns)))
    shape = (len(words), max(1, len(columns)))
    return csr_matrix((np.ones(len(rows), dtype=np.float32), (rows, places)), shape=shape)


def _bleu(grams: Sequence[csr_matrix], lengths: NDArray[np.float64], rows: slice) -> NDArray[np.float64]:
    """BLEU of each text of `rows` as hypothesis against every text as reference."""
    mine = lengths[rows][:, None]
    log_precision = np.zeros((len(mine), len(lengths)))
    any_word = np.zeros(log_precision.shape, dtype=bool)
    for n, occurrences in enumerate(grams, 1):
        matched = (occurrences[rows] @ occurrences.T).toarray()
        if n == 1:
            any_word = matched > 0
        total = np.maximum(mine - n + 1, 1)  # a text shorter than n counts as one miss
        log_precision += np.log(np.where(matched > 0, matched, SMOOTHING) / total) / ORDERS
    brevity = np.minimum(0.0, 1 - lengths[None] / np.maximum(mine, 1))
    return np.where(any_word, np.exp(log_precision + brevity), 0.0)


def clusters(texts: Sequence[str], threshold: float = 0.5) -> list[int]:
    """A cluster number for each text: average linkage, cut at the distance `threshold`."""
    if len(texts) < 2:
        return [1] * len(texts)
    tree = linkage(squareform(distances(texts).astype(np.float64), checks=False), method="average")
    return [int(label) for label in fcluster(tree, threshold, criterion="distance")]


def repetition(texts: Sequence[str], threshold: float = 0.5) -> list[float]:
    """|cluster(task)| / B of every text of a batch, in (0, 1]."""
    labels = clusters(texts, threshold)
    sizes = Counter(labels)
    return [sizes[label] / len(texts) for label in labels]
