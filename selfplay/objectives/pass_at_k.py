"""The unbiased pass@k estimator (Chen et al. 2021; ANCORA section 5.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 - C(n-c, k) / C(n, k): the chance that k of n samples, c of them correct, hold a correct one.

    Computed as 1 - prod_{i=n-c+1..n} (1 - k/i), which never forms a large binomial.

    Raises:
        ValueError: not 0 <= c <= n with 1 <= k <= n.
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"need 0 <= c <= n and 1 <= k <= n, got n={n}, c={c}, k={k}")
    if n - c < k:
        return 1.0
    return float(1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1, dtype=np.float64)))


def mean_pass_at_k(n: ArrayLike, c: ArrayLike, k: int) -> float:
    """Mean of pass@k over problems: samples n [P] and correct samples c [P]; n may be one number for all.

    Raises:
        ValueError: no problem, or a problem with fewer than k samples.
    """
    correct = np.atleast_1d(np.asarray(c, dtype=np.int64))
    samples = np.broadcast_to(np.asarray(n, dtype=np.int64), correct.shape)
    if correct.size == 0:
        raise ValueError("pass@k of no problem is undefined")
    return float(np.mean([pass_at_k(int(ni), int(ci), k) for ni, ci in zip(samples, correct, strict=True)]))
