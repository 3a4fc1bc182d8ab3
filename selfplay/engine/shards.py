"""The files in which verl's ranks keep their state, read without running anything that they might hold.

A rank writes `<kind>_world_size_<N>_rank_<R>.pt` with torch's pickle; verl 0.9.1 unpickles them whatever is inside.
Here tensors and plain values are all that is built, so a checkpoint from elsewhere can at worst be refused.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_SHARD = re.compile(r"(model|optim|extra_state)_world_size_(\d+)_rank_(\d+)\.pt")


def shards(folder: Path, kind: str = "model") -> list[Path]:
    """The files of a kind (model, optim, extra_state) in the order of the ranks that wrote them.

    Raises:
        ValueError: some are missing, or there are those of several runs.
    """
    found = {}
    for path in folder.iterdir():
        match = _SHARD.fullmatch(path.name)
        if match and match[1] == kind:
            found[int(match[2]), int(match[3])] = path
    size = min(found)[0] if found else 0
    if not size or sorted(found) != [(size, rank) for rank in range(size)]:
        ranks = sorted(rank for _, rank in found)
        raise ValueError(f"{folder}: there are {kind} shards of ranks {ranks}, of {size}")
    return [found[size, rank] for rank in range(size)]


def read(path: Path, *, lazily: bool = False) -> Any:
    """What a shard holds: tensors, numbers, texts and containers of those.

    `lazily` leaves the tensors in the file until they are used; it must not change meanwhile.

    Raises:
        ValueError: it holds something else, or is damaged.
    """
    import numpy as np
    import torch
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

    placed = [DTensor, DTensorSpec, TensorMeta, DeviceMesh, Shard, Replicate]
    arrays: list[Any] = [np.zeros(0).__reduce__()[0], np.ndarray, np.dtype, type(np.dtype(np.uint32))]  # a generator
    try:
        with torch.serialization.safe_globals([*placed, *arrays]):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=lazily)
    except Exception as error:  # torch has no one class for a bad file
        raise ValueError(f"{path}: not a readable state of a rank: {str(error).strip().splitlines()[0]}") from error


def joined(name: str, parts: Sequence[Any]) -> Any:
    """One new tensor from its parts on all ranks; other values are rank 0's.

    Raises:
        ValueError: it is laid out in a way that is not known here.
    """
    import torch
    from torch.distributed.tensor import DTensor, Replicate, Shard

    first = parts[0]
    if not isinstance(first, DTensor):
        return first.clone().contiguous() if isinstance(first, torch.Tensor) else first
    placement = first.placements[-1]
    local = [part.to_local() for part in parts]
    if isinstance(placement, Replicate):
        return local[0].clone().contiguous()
    if len(first.placements) != 1 or not isinstance(placement, Shard):
        raise ValueError(f"{name}: its placements {first.placements} are not known here")
    return torch.cat([part for part in local if part.numel()], dim=placement.dim).contiguous()


def restore_generators(states: Mapping[str, Any]) -> None:
    """Set this process's generators to what verl's `get_rng_state` returned."""
    import numpy as np
    import torch

    torch.set_rng_state(states["cpu"])
    np.random.set_state(states["numpy"])
    version, internal, gauss = states["random"]
    random.setstate((version, tuple(internal), gauss))
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
