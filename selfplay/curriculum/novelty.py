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

_SURROUNDINGS = 64  # rows looked at for kin, beyond those that the gate must see


@dataclass(frozen=True)
class Near:
    """A signature with the rows of the pool near to it, most similar first (see `MinHashIndex.similar`)."""

    signature: Signature
    rows: NDArray[np.int64]
    sims: NDArray[np.float64]

    def kin(self, most: int, least_sim: float) -> NDArray[np.int64]:
        """Up to `most` rows with similarity >= `least_sim`."""
        return self.rows[self.sims >= least_sim][:most]


@dataclass(frozen=True)
class NoveltyVerdict:
    """Outcome of the gate: `reason` is None for a new specification.

    `similarity` and `row` are the deciding ones, or those of the nearest pool member that the index returned; `row` is
    None when it returned none.
    """

    reason: Reason | None
    similarity: float
    row: int | None
    near: Near | None  # None for a rewrite of a parent, which is never compared with the pool


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
        renamed = rename_form(text)
        for row, parent in parents:
            if renamed == rename_form(parent):
                return NoveltyVerdict(Reason.RENAME_ONLY, 1.0, row, None)
        for row, parent in parents:
            similarity = self.structural_similarity(text, parent)
            if similarity > self.config.max_structural_sim:
                return NoveltyVerdict(Reason.STRUCTURAL_COPY, similarity, row, None)
        near = self.near(text)
        nearest, highest = (int(near.rows[0]), float(near.sims[0])) if len(near.rows) else (None, 0.0)
        if highest > self.config.max_pool_sim:
            return NoveltyVerdict(Reason.POOL_DUPLICATE, highest, nearest, near)
        for row in siblings:
            similarity = self.index.similarity(near.signature, row)
            if similarity > self.config.max_sibling_sim:
                return NoveltyVerdict(Reason.SIBLING_DUPLICATE, similarity, row, near)
        return NoveltyVerdict(None, highest, nearest, near)

    def near(self, text: str) -> Near:
        """The signature of a specification and its surroundings in the pool."""
        sig = self.sign(text)
        return Near(sig, *self.index.similar(sig, wanted=_SURROUNDINGS))
