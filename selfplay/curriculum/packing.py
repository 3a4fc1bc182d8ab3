"""Checking that a pool is a packing: no two members closer than the gate allows (ANCORA lemma G.2)."""

from __future__ import annotations

from selfplay.curriculum.minhash_index import MinHashIndex
from selfplay.curriculum.statistics import Rows


def close_pairs(index: MinHashIndex, rows: Rows, limit: float) -> list[tuple[int, int, float]]:
    """Pairs (a, b, similarity) of the given rows with a < b and similarity > `limit`, the index's own threshold."""
    pairs: list[tuple[int, int, float]] = []
    for a in rows.tolist():
        near, sims = index.similar(index.signatures[a])
        pairs.extend((a, int(b), float(s)) for b, s in zip(near, sims, strict=True) if b > a and s > limit)
    return pairs
