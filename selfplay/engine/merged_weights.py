"""A folder that any server loads, made from the checkpoint of a run: the ranks' shards joined.

verl 0.9.1's own merger unpickles whatever the files hold; here only tensors are read.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfplay.engine.policy import WEIGHTS

_SHARD = re.compile(r"model_world_size_(\d+)_rank_(\d+)\.pt")


def merge(actor: Path, folder: Path) -> None:
    """Write the model of `actor`, the folder of that name in a checkpoint, into `folder`.

    Raises:
        ValueError: shards are missing, hold adapters, or are laid out in a way that is not known here.
    """
    from safetensors.torch import save_file

    shards = _shards(actor)
    states = [_tensors(path) for path in shards]
    whole = {name: _joined(name, [state[name] for state in states]) for name in states[0]}
    if any("lora_" in name for name in whole):
        raise ValueError(f"{actor}: it holds adapters beside the weights; use the run's policies/final")
    folder.mkdir(parents=True, exist_ok=True)
    for path in (actor / "huggingface").iterdir():
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if config.get("tie_word_embeddings"):
        whole.pop("lm_head.weight", None)
    save_file(whole, folder / WEIGHTS, metadata={"format": "pt"})


def _shards(actor: Path) -> list[Path]:
    """The shards in the order of their ranks."""
    found = {int(match[2]): (int(match[1]), path) for path in actor.iterdir() if (match := _SHARD.fullmatch(path.name))}
    size = next(iter(found.values()))[0] if found else 0
    if not size or sorted(found) != list(range(size)):
        raise ValueError(f"{actor}: there are shards of ranks {sorted(found)}, of {size}")
    return [found[rank][1] for rank in range(size)]


def _tensors(path: Path) -> Mapping[str, Any]:
    """A shard's tensors; nothing else that a pickle could hold is built."""
    import torch
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

    with torch.serialization.safe_globals([DTensor, DTensorSpec, TensorMeta, DeviceMesh, Shard, Replicate]):
        state: Mapping[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


def _joined(name: str, parts: list[Any]) -> Any:
    """One tensor from its parts on all ranks."""
    import torch
    from torch.distributed.tensor import DTensor, Replicate, Shard

    first = parts[0]
    if not isinstance(first, DTensor):
        return first.contiguous()
    placement = first.placements[-1]
    local = [part.to_local() if hasattr(part, "to_local") else part for part in parts]
    if isinstance(placement, Replicate):
        return local[0].contiguous()
    if len(first.placements) != 1 or not isinstance(placement, Shard):
        raise ValueError(f"{name}: its placements {first.placements} are not known here")
    return torch.cat([part for part in local if part.numel()], dim=placement.dim).contiguous()
