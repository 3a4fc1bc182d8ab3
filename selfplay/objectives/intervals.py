"""Confidence intervals for pass rates.

`wilson` treats all samples as one pool of independent draws: right for a single problem, too narrow when samples of one
problem resemble each other. `bootstrap_mean` and `bootstrap_difference` resample *problems*, which is the unit that a
benchmark generalises over. All are seeded and repeat exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Interval:
    """A point estimate with its two-sided confidence bounds."""

    mean: float
    low: float
    high: float


def wilson(successes: int, samples: int, confidence: float = 0.95) -> Interval:
    """Wilson score interval of a binomial proportion.

    centre = (p + z^2/2n) / (1 + z^2/n),  half = z / (1 + z^2/n) * sqrt(p (1 - p)/n + z^2/4n^2)

    Raises:
        ValueError: not 0 <= successes <= samples with samples >= 1.
    """
    if not (samples >= 1 and 0 <= successes <= samples):
        raise ValueError(f"need 0 <= successes <= samples and samples >= 1, got {successes} of {samples}")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p = successes / samples
    shrink = 1 + z * z / samples
    centre = (p + z * z / (2 * samples)) / shrink
    half = z / shrink * float(np.sqrt(p * (1 - p) / samples + z * z / (4 * samples * samples)))
    low = 0.0 if successes == 0 else max(0.0, centre - half)  # exact at the ends, where rounding would leave 1e-17
    high = 1.0 if successes == samples else min(1.0, centre + half)
    return Interval(p, low, high)


def fell(before: float, after: float, samples: int, confidence: float = 0.95) -> bool:
    """Whether a rate, measured twice on `samples` draws each, is lower by more than chance: the one-sided z-test

        (before - after) / sqrt(2 p (1 - p) / samples) > z,  p the mean of both

    Raises:
        ValueError: no sample.
    """
    if samples < 1:
        raise ValueError(f"samples: {samples} is not allowed; it must be 1 or more")
    p = (before + after) / 2
    return before - after > NormalDist().inv_cdf(confidence) * float(np.sqrt(2 * p * (1 - p) / samples))


def bootstrap_mean(values: ArrayLike, seed: int = 0, resamples: int = 10_000, confidence: float = 0.95) -> Interval:
    """Percentile bootstrap of the mean over problems, values [P] (for example each problem's pass rate).

    Raises:
        ValueError: no value.
    """
    v = np.asarray(values, dtype=np.float64)
    if v.ndim != 1 or v.size == 0:
        raise ValueError(f"values must be a non-empty vector, got shape {v.shape}")
    tail = (1 - confidence) / 2
    low, high = np.quantile(_resampled_means(v, seed, resamples), [tail, 1 - tail])
    return Interval(float(v.mean()), float(low), float(high))


def bootstrap_difference(
    after: ArrayLike, before: ArrayLike, seed: int = 0, resamples: int = 10_000, confidence: float = 0.95
) -> Interval:
    """Paired bootstrap of mean(after - before) over the same problems in the same order, both [P].

    Raises:
        ValueError: the vectors differ in length or are empty.
    """
    a, b = np.asarray(after, dtype=np.float64), np.asarray(before, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(f"paired values must have one shape, got {a.shape} and {b.shape}")
    return bootstrap_mean(a - b, seed=seed, resamples=resamples, confidence=confidence)


def _resampled_means(v: NDArray[np.float64], seed: int, resamples: int) -> NDArray[np.float64]:
    """Means [resamples] of P draws with replacement, in blocks so that memory stays within a few MB."""
    rng = np.random.default_rng(seed)
    means = np.empty(resamples, dtype=np.float64)
    block = max(1, 1_000_000 // v.size)
    for start in range(0, resamples, block):
        stop = min(start + block, resamples)
        means[start:stop] = v[rng.integers(0, v.size, size=(stop - start, v.size))].mean(axis=1)
    return means
