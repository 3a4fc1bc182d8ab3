"""verl's policy loss with an upper clip bound for each row, as ADPO wants it. Imported by the ranks."""

from __future__ import annotations

import copy
from typing import Any

import torch
from verl.workers.utils.losses import ppo_loss


def row_clip_loss(config: Any, model_output: Any, data: Any, dp_group: Any = None) -> Any:
    """`ppo_loss` with `clip_ratio_high` taken from the column `clip_high`; a row without one (NaN) has the policy's.

    torch's clamp takes tensors only where both bounds are, so the lower one becomes a tensor as well: shapes (B, 1).
    """
    column = data["clip_high"]
    high = (column.values() if column.is_nested else column).reshape(-1, 1).float()
    low = config.clip_ratio if config.clip_ratio_low is None else config.clip_ratio_low
    usual = config.clip_ratio if config.clip_ratio_high is None else config.clip_ratio_high
    config = copy.copy(config)  # frozen
    object.__setattr__(config, "clip_ratio_high", torch.where(high.isnan(), torch.full_like(high, usual), high))
    object.__setattr__(config, "clip_ratio_low", torch.full_like(high, float(low)))
    return ppo_loss(config, model_output, data, dp_group)
