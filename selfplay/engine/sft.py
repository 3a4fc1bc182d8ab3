"""Supervised batches for the same FSDP workers: verl's `sft_loss` through verl's `update_actor`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.dataset.dataset_utils import DatasetPadMode

Pair = tuple[list[int], list[int]] | tuple[list[int], list[int], list[int]]  # prompt ids, response ids, and its mask


def jagged(rows: Sequence[Sequence[int]]) -> torch.Tensor:
    return torch.nested.as_nested_tensor([torch.tensor(r, dtype=torch.int64) for r in rows], layout=torch.jagged)


def sequences(pairs: Sequence[Pair]) -> TensorDict:
    """A batch of whole sequences, nothing padded. Shapes (B, j): ids and masks; the loss is on the responses.

    `loss_mask` has the sequence's full length here (verl's `sft_loss` shifts it), while in a rollout batch it has the
    response's.
    """
    return tu.get_tensordict(
        {
            "input_ids": jagged([pair[0] + pair[1] for pair in pairs]),
            "position_ids": jagged([range(len(pair[0]) + len(pair[1])) for pair in pairs]),
            "loss_mask": jagged([[0] * len(pair[0]) + _mask(pair) for pair in pairs]),
        },
        {},
    )


def _mask(pair: Pair) -> list[int]:
    """1 for what is to be imitated: all of the response, or what the pair says of it."""
    return pair[2] if len(pair) == 3 else [1] * len(pair[1])


def sft_batch(pairs: Sequence[Pair], batch_size: int, max_tokens_per_rank: int, pad_token_id: int) -> TensorDict:
    """`pairs` as successive optimizer steps of `batch_size` each (a divisor of their number)."""
    if len(pairs) % batch_size:
        raise ValueError(f"{len(pairs)} pairs do not divide into batches of {batch_size}")
    batch = sequences(pairs)
    tu.assign_non_tensor(
        batch,
        temperature=1.0,
        pad_mode=DatasetPadMode.NO_PADDING,
        pad_token_id=pad_token_id,
        use_remove_padding=False,
        use_dynamic_bsz=True,
        max_token_len_per_gpu=max_tokens_per_rank,
        calculate_entropy=False,
        global_batch_size=batch_size,
        mini_batch_size=batch_size,
        epochs=1,
        seed=1,
        dataloader_kwargs={"shuffle": False},
    )
    return batch
