"""Micro-batches of rows of similar length, for engines that pad.

verl 0.9.1 packs rows into micro-batches of equal work, so long and short rows mix; without flash-attn each micro-batch
is then padded to its longest row, which doubles the work of ragged rollouts. Sorted by length, hardly anything is
padded. The order in which gradients are added changes, the rows' results do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from verl.utils import tensordict_utils as tu
from verl.workers.engine.fsdp import transformer_impl


def pack(lengths: Sequence[int], max_padded_tokens: int, at_least: int = 1) -> list[list[int]]:
    """Row numbers in micro-batches whose rows times longest row stay within `max_padded_tokens`, shortest rows first.

    A row longer than the limit gets a micro-batch of its own. `at_least` micro-batches are made, by halving the one of
    most rows, so that all ranks have equally many.

    Raises:
        ValueError: fewer rows than `at_least`.
    """
    if len(lengths) < at_least:
        raise ValueError(f"{len(lengths)} rows do not make {at_least} micro-batches")
    groups: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        if groups and (len(groups[-1]) + 1) * lengths[row] <= max_padded_tokens:
            groups[-1].append(row)
        else:
            groups.append([row])
    while len(groups) < at_least:
        largest = max(range(len(groups)), key=lambda i: len(groups[i]))
        rows = groups[largest]
        groups[largest : largest + 1] = [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
    return groups


def by_length(data: Any, dp_group: Any = None, **_unused: Any) -> tuple[list[Any], list[list[int]]]:
    """In the place of verl's `prepare_micro_batches`: the micro-batches, and the rows that each holds."""
    lengths = data["input_ids"].offsets().diff().tolist()
    limit = int(data["max_token_len_per_gpu"])
    groups = pack(lengths, limit)
    if dp_group is not None and dist.is_initialized():
        count = torch.tensor([len(groups)])
        dist.all_reduce(count, op=dist.ReduceOp.MAX, group=dp_group)
        groups = pack(lengths, limit, at_least=int(count))
    return [tu.index_select_tensor_dict(data, rows) for rows in groups], groups


@contextmanager
def sorted_by_length() -> Iterator[None]:
    """Patches one name of verl 0.9.1's FSDP engine while the block runs; it has no hook for micro-batching."""
    stock: Callable[..., Any] = transformer_impl.prepare_micro_batches
    transformer_impl.prepare_micro_batches = by_length
    try:
        yield
    finally:
        transformer_impl.prepare_micro_batches = stock
