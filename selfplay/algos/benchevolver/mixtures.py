"""What the policy is trained on: seeds, evolved tasks, or both, in an order that a resumed run finds again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from selfplay.algos.benchevolver.evolve import NGRAM
from selfplay.benchmarks.code_task import CodeTask
from selfplay.curriculum.contamination import Contamination


def mixture(name: str, seeds: Sequence[CodeTask], evolved: Sequence[CodeTask]) -> list[CodeTask]:
    """The tasks of `seed`, `evolved` or `seed_evolved`."""
    return [*(seeds if name != "evolved" else ()), *(evolved if name != "seed" else ())]


def clear_of(tasks: Sequence[CodeTask], evaluation: Sequence[CodeTask]) -> list[CodeTask]:
    """The tasks that share no n words in a row with an evaluation task, and are near none."""
    check = Contamination([task.statement for task in evaluation], NGRAM)
    return [task for task in tasks if not check.of(task.statement)]


def batch_of(count: int, step: int, size: int, seed: int) -> list[int]:
    """The places of one step's problems: successive pieces of a fresh order for every pass over all of them."""
    places, orders = [], dict[int, Any]()
    for place in range(step * size, (step + 1) * size):
        epoch, i = divmod(place, count)
        if epoch not in orders:
            orders[epoch] = np.random.default_rng([seed, epoch]).permutation(count)
        places.append(int(orders[epoch][i]))
    return places
