"""The novelty gate (ANCORA sections 4.4 and G.2): is a candidate new to the pool, to its siblings and to its parents?

Scores of this gate never enter a reward; they only decide on admission.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfplay.curriculum.config import NoveltyConfig
from selfplay.curriculum.minhash_index import MinHashIndex, Signature, signature
from selfplay.curriculum.node import Reason
from selfplay.curriculum.text import jaccard, rename_form, shingles, structural_form


@dataclass(frozen=True)
class NoveltyVerdict:
    """Outcome of the gate: `reason` is None for a new specification.

    `similarity` and `row` are the deciding ones, or those of the nearest pool member that the index returned; `row` is
    None when a sibling or nothing at all was nearest.
    """

    reason: Reason | None
    similarity: float
    row: int | None
    signature: Signature


class NoveltyGate:
    """Signatures of the pool, row by row, and the three similarity limits."""

    def __init__(self, config: NoveltyConfig, normalise: Callable[[str], str] = structural_form) -> None:
        """`normalise` maps a specification to its structure: identifiers and literals taken out."""
        config.check()
        self.config = config
        self.normalise = normalise
        self.index = MinHashIndex(config.max_pool_sim, config.permutations)

    def sign(self, text: str) -> Signature:
        """MinHash signature of a specification."""
        return signature(shingles(text, self.config.shingle), self.config.permutations, self.config.hash_seed)

    def structural_similarity(self, text: str, other: str) -> float:
        """Exact Jaccard similarity of the shingles of both normalised texts."""
        k = self.config.shingle
        return jaccard(shingles(self.normalise(text), k), shingles(self.normalise(other), k))

    def check(self, text: str, parents: Sequence[tuple[int, str]], siblings: Sequence[int]) -> NoveltyVerdict:
        """Judge a candidate.

        Args:
            parents: (row, text) of each parent; siblings: rows admitted in this step that share a parent with it.

        The cheap exact comparisons with the parents come first, so that a superficial rewrite is named as one.
        """
        sig = self.sign(text)
        renamed = rename_form(text)
        for row, parent in parents:
            if renamed == rename_form(parent):
                return NoveltyVerdict(Reason.RENAME_ONLY, 1.0, row, sig)
        for row, parent in parents:
            similarity = self.structural_similarity(text, parent)
            if similarity > self.config.max_structural_sim:
                return NoveltyVerdict(Reason.STRUCTURAL_COPY, similarity, row, sig)
        rows, sims = self.index.similar(sig)
        if len(rows) and sims[0] > self.config.max_pool_sim:
            return NoveltyVerdict(Reason.POOL_DUPLICATE, float(sims[0]), int(rows[0]), sig)
        for row in siblings:
            similarity = self.index.similarity(sig, row)
            if similarity > self.config.max_sibling_sim:
                return NoveltyVerdict(Reason.SIBLING_DUPLICATE, similarity, row, sig)
        if len(rows):
            return NoveltyVerdict(None, float(sims[0]), int(rows[0]), sig)
        return NoveltyVerdict(None, 0.0, None, sig)

    def neighbours(self, sig: Signature, most: int, least_sim: float) -> NDArray[np.int64]:
        """Up to `most` rows with similarity >= `least_sim`, nearest first: the kin of a node.

        An approximate search: a pair below the gate's threshold may share too few bands to be seen.
        """
        rows, sims = self.index.similar(sig, hits=max(1, self.index.least_hits // 2))
        return rows[sims >= least_sim][:most]
