"""MinHash signatures of the pool, with an LSH index that misses no pair above its threshold.

Two signatures of P permutations with similarity above t differ in at most D = P - floor(t P) - 1 places. Cut them into
more than D bands: by the pigeonhole principle at least `bands - D` bands are equal (t = 0.72, P = 128: D = 35, so 42
bands of 3 rows, of which 7 must agree). The candidates are the members with that many equal bands, and the exact
similarity of their signatures decides. The packing invariant of lemma G.2 then holds by construction, which a banding
tuned for probable recall would not give.

The signatures are datasketch's. Its `MinHashLSH` with bands as narrow as these was measured at 10.9 KB and 0.16 ms per
insert and does not tell how many bands agreed, so the buckets here are plain dictionaries over 64-bit band hashes.
"""

from __future__ import annotations

from array import array
from functools import lru_cache

import numpy as np
from datasketch import MinHash
from numpy.typing import NDArray

Signature = NDArray[np.uint32]  # [permutations]
SCHEME = "affine32"  # datasketch's 32-bit permutations: half the memory of its older scheme


@lru_cache(maxsize=8)
def _blank(permutations: int, seed: int) -> MinHash:
    return MinHash(num_perm=permutations, seed=seed, scheme=SCHEME)


def signature(shingles: set[str], permutations: int, seed: int) -> Signature:
    """MinHash signature [permutations] of a set of shingles."""
    sketch = _blank(permutations, seed).copy()
    sketch.update_batch([s.encode() for s in sorted(shingles)])
    return np.asarray(sketch.hashvalues, dtype=np.uint32)


class MinHashIndex:
    """Signatures by row, searchable by similarity without scanning them.

    Rows are handed out in order by `add`; `remove` hides a row from every later query.
    """

    def __init__(self, threshold: float, permutations: int) -> None:
        """`threshold`: pairs with a similarity strictly above it are found without fail."""
        differing = permutations - int(np.floor(threshold * permutations + 1e-9)) - 1
        if differing < 0:  # similarity above 1 does not occur: any banding will do
            differing = 0
        self.band_rows = next(r for r in range(permutations, 0, -1) if permutations // r > differing)
        self.bands = permutations // self.band_rows
        self.least_hits = self.bands - differing
        self.permutations = permutations
        self.size = 0
        self._signatures: NDArray[np.uint32] = np.zeros((64, permutations), dtype=np.uint32)
        self._alive: NDArray[np.bool_] = np.zeros(64, dtype=np.bool_)
        self._buckets: list[dict[int, int | array[int]]] = [{} for _ in range(self.bands)]

    @property
    def signatures(self) -> NDArray[np.uint32]:
        """All signatures so far [size, permutations], removed rows included."""
        return self._signatures[: self.size]

    def add(self, sig: Signature) -> int:
        """Store a signature; returns its row."""
        row = self.size
        if row == len(self._signatures):
            grown = np.zeros((2 * row, self.permutations), dtype=np.uint32)
            grown[:row] = self._signatures
            self._signatures = grown
            self._alive = np.concatenate([self._alive, np.zeros(row, dtype=np.bool_)])
        self._signatures[row] = sig
        self._alive[row] = True
        self.size = row + 1
        for bucket, key in zip(self._buckets, self._band_keys(sig[None])[0].tolist(), strict=True):
            _put(bucket, key, row)
        return row

    def add_all(self, sigs: NDArray[np.uint32]) -> None:
        """Fill an empty index with signatures [M, permutations] in order; much faster than one by one."""
        if self.size:
            raise ValueError(f"the index holds {self.size} rows already")
        self._signatures = np.concatenate([sigs.astype(np.uint32), self._signatures])
        self._alive = np.concatenate([np.ones(len(sigs), bool), self._alive])
        self.size = len(sigs)
        self._buckets = [_buckets(keys) for keys in self._band_keys(sigs).T]

    def remove(self, row: int) -> None:
        """Hide a row from later queries."""
        self._alive[row] = False

    def similar(self, sig: Signature, wanted: int = 0) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Rows near `sig` and their similarities, most similar first; ties are in row order.

        Every row above the threshold is among them. To bring nearer to `wanted` rows, others that share fewer bands are
        added as long as the total stays within it; those below the threshold are an approximate choice.
        """
        found: list[NDArray[np.int64]] = []
        for bucket, key in zip(self._buckets, self._band_keys(sig[None])[0].tolist(), strict=True):
            rows = bucket.get(key)
            if isinstance(rows, int):
                found.append(np.array([rows], dtype=np.int64))
            elif rows is not None:
                found.append(np.frombuffer(rows, dtype=np.int64))
        if not found:
            return np.empty(0, dtype=np.int64), np.empty(0)
        # a few passes of 8 bytes per row over the counters; only the signatures of the near rows are read
        counts = np.bincount(np.concatenate(found))
        at_least = np.cumsum(np.bincount(counts, minlength=self.bands + 1)[::-1])[::-1]  # rows with >= h equal bands
        hits = self.least_hits
        while hits > 1 and at_least[hits - 1] <= wanted:
            hits -= 1
        near = np.flatnonzero(counts >= hits)
        near = near[self._alive[near]]
        return self._ranked(sig, near)

    def similarity(self, sig: Signature, row: int) -> float:
        """Estimated Jaccard similarity of a signature to a row's."""
        return float(np.count_nonzero(self._signatures[row] == sig)) / self.permutations

    def _ranked(self, sig: Signature, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        sims = np.count_nonzero(self._signatures[rows] == sig, axis=1) / self.permutations
        order = np.lexsort((rows, -sims))
        return rows[order], sims[order]

    def _band_keys(self, sigs: NDArray[np.uint32]) -> NDArray[np.uint64]:
        """64-bit hashes [M, bands] of the bands; a collision only costs one needless comparison."""
        used = sigs[:, : self.bands * self.band_rows].astype(np.uint64)
        keys = np.full((len(sigs), self.bands), 0xCBF29CE484222325, dtype=np.uint64)
        for column in used.reshape(len(sigs), self.bands, self.band_rows).transpose(2, 0, 1):
            keys = (keys ^ column) * np.uint64(0x9E3779B97F4A7C15)
            keys ^= keys >> np.uint64(29)
        return keys


def _put(bucket: dict[int, int | array[int]], key: int, row: int) -> None:
    """A bucket of one row is a bare int, a larger one a compact array: most buckets have one row."""
    rows = bucket.setdefault(key, row)
    if isinstance(rows, array):
        rows.append(row)
    elif rows != row:
        bucket[key] = array("q", (rows, row))


def _buckets(keys: NDArray[np.uint64]) -> dict[int, int | array[int]]:
    """What `_put` makes of the keys [M] of rows 0..M-1, built in one go."""
    if not len(keys):
        return {}
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    ends = np.append(starts[1:], len(keys))
    buckets: dict[int, int | array[int]] = dict(zip(ordered[starts].tolist(), order[starts].tolist(), strict=True))
    shared = ends - starts > 1
    for start, end in zip(starts[shared].tolist(), ends[shared].tolist(), strict=True):
        buckets[int(ordered[start])] = array("q", order[start:end].tobytes())
    return buckets
