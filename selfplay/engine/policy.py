"""What a session is asked to train. Light: importing it imports none of verl."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PolicySpec:
    """The policy and the sizes of its rollouts. `max_prompt` and `max_response` are tokens."""

    model_path: Path | str  # a folder, or a hub name
    max_prompt: int
    max_response: int
    temperature: float = 1.0
    top_p: float = 1.0
    clip_ratio: float = 0.2
    grad_clip: float = 1.0
    weight_decay: float = 0.0
    kl_coef: float = 0.0  # above 0: a frozen reference of `model_path` joins the loss (low_var_kl)
    entropy_coef: float = 0.0
    frozen_model: Path | str | None = None
