"""From attempts that were right to the score of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence

from selfplay.objectives.intervals import bootstrap_mean, wilson
from selfplay.objectives.pass_at_k import mean_pass_at_k
from selfplay.runs.summary import EvalScore

KS = (1, 5, 10)  # ANCORA, section 5.1


def score(solved: Sequence[int], n: int) -> EvalScore:
    """pass@k of specifications of which `solved` attempts of `n` each verified.

    The interval is Wilson's over all attempts: it speaks of this suite's pass@1, not of specifications in general; that
    is what the bootstrap over specifications is for.
    """
    pooled = wilson(sum(solved), n * len(solved))
    spread = bootstrap_mean([c / n for c in solved])
    return EvalScore(
        pass_at_1=pooled.mean,
        n=n * len(solved),
        interval=(pooled.low, pooled.high),
        by_problem=(spread.low, spread.high),
        pass_at_k={str(k): mean_pass_at_k(n, solved, k) for k in KS if k <= n},
    )
