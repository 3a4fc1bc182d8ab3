"""Texts that are too close to others: to an evaluation set, or to tasks that are there already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from selfplay.curriculum.minhash_index import MinHashIndex, signature
from selfplay.curriculum.text import tokens

_PERMUTATIONS, _HASH_SEED, NEAR = 128, 1, 0.8


class Contamination:
    """Overlap with a set of texts: n words in a row, or a MinHash similarity above `limit`."""

    def __init__(self, texts: Sequence[str], n: int, limit: float = NEAR) -> None:
        self.n, self.limit = n, limit
        self._grams: set[tuple[str, ...]] = set()
        self._index = MinHashIndex(limit, _PERMUTATIONS)
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """One more text to compare with."""
        self._grams.update(self._ngrams(text))
        self._index.add(self._sketch(text))

    def of(self, text: str) -> str:
        """`n-gram`, `minhash`, or "" for none."""
        if not self._grams.isdisjoint(self._ngrams(text)):
            return "n-gram"
        return "minhash" if self.near(text) else ""

    def near(self, text: str) -> bool:
        """Whether the text is nearly one of them, by MinHash alone."""
        _, similar = self._index.similar(self._sketch(text))
        return bool(len(similar)) and bool(similar[0] > self.limit)

    def _ngrams(self, text: str) -> list[tuple[str, ...]]:
        """A text with fewer words than n is one gram."""
        words = normal(text)
        return [tuple(words[i : i + self.n]) for i in range(max(1, len(words) - self.n + 1))] if words else []

    @staticmethod
    def _sketch(text: str) -> Any:
        words = normal(text)
        grams = {" ".join(words[i : i + k]) for k in (1, 2, 3) for i in range(len(words) - k + 1)}
        return signature(grams or {""}, _PERMUTATIONS, _HASH_SEED)


def normal(text: str) -> list[str]:
    """Words and signs, in lower case."""
    return [word.lower() for word in tokens(text)]
