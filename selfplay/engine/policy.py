"""What a session is asked to train. Light: importing it imports none of verl."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

WEIGHTS = "model.safetensors"  # of an exported policy
LEAST_BUCKET_MIB, VERL_BUCKET_MIB = 16, 2048


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
    update_epochs: int = 1  # optimizer steps on the rows of one step; from the second on, the clip bound acts
    weight_decay: float = 0.0
    kl_coef: float = 0.0  # above 0: a frozen reference of `model_path` joins the loss (low_var_kl)
    entropy_coef: float = 0.0
    trust_remote_code: bool = False  # of the model's repository
    lora_rank: int = 0  # above 0: adapters are trained and the rest is frozen
    lora_alpha: int = 64
    frozen_model: Path | str | None = None  # a server beside the trainer starts with these weights


def bucket_mib(model_path: str | Path) -> int:
    """Shared memory through which weights travel on a CPU, MiB: no tensor may be larger.

    The largest is the embedding or a projection of the MLP, in float32. A model of the hub gets verl's own default.
    """
    path = Path(model_path) / "config.json"
    if not path.is_file():
        return VERL_BUCKET_MIB
    shape = json.loads(path.read_text(encoding="utf-8"))
    widest = max(shape["vocab_size"], shape.get("intermediate_size", 0))
    return max(LEAST_BUCKET_MIB, math.ceil(4 * widest * shape["hidden_size"] / 2**20) + 1)
