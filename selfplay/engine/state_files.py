"""verl's checkpoint manager, with a reader of its own: no code from files, and any number of ranks may have written.

A run that lost a node goes on with the ranks that are left: each takes its part of the joined tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor, distribute_tensor
from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager

from selfplay.engine.shards import joined, read, restore_generators, shards


class StateFiles(FSDPCheckpointManager):
    """Writes as verl 0.9.1 does (FSDP2, one file a rank and kind); reads with `selfplay.engine.shards`."""

    def load_checkpoint(
        self, local_path: str, hdfs_path: str | None = None, del_local_after_load: bool = False
    ) -> None:
        """Take over weights, optimizer, schedule and generators from the folder `local_path`.

        Raises:
            ValueError: files are missing, damaged or hold anything but tensors and plain values.
        """
        folder = Path(local_path)
        models, optimizers, extras = (shards(folder, kind) for kind in ("model", "optim", "extra_state"))
        if len(models) == self.world_size:
            self.model.load_state_dict(read(models[self.rank]))
            self.optimizer.load_state_dict(read(optimizers[self.rank]))
        else:
            self._take_parts(*([read(path, lazily=True) for path in kind] for kind in (models, optimizers)))
        extra = read(extras[self.rank % len(extras)])
        restore_generators(extra["rng"])
        if self.lr_scheduler is not None and extra["lr_scheduler"] is not None:
            self.lr_scheduler.load_state_dict(extra["lr_scheduler"])
        torch.distributed.barrier()

    def _take_parts(self, models: list[Mapping[str, Any]], optimizers: list[Mapping[str, Any]]) -> None:
        """Load what other numbers of ranks wrote: join each tensor, and keep this rank's part of it."""
        present = self.model.state_dict()
        self.model.load_state_dict(
            {name: _part(joined(name, [state[name] for state in models]), tensor) for name, tensor in present.items()}
        )
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        first = optimizers[0]
        state = {
            index: {
                key: _moment(joined(key, [other["state"][index][key] for other in optimizers]), parameters[index])
                for key in values
            }
            for index, values in first["state"].items()
        }
        self.optimizer.load_state_dict({"state": state, "param_groups": first["param_groups"]})


def _part(whole: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """This rank's part of `whole`, laid out as `like` is."""
    if not isinstance(like, DTensor):
        return whole
    whole = whole.to(like.device_mesh.device_type)
    return distribute_tensor(whole, like.device_mesh, like.placements)


def _moment(value: Any, parameter: torch.Tensor) -> Any:
    """A moment is laid out as its parameter is; the count of steps is a number."""
    return _part(value, parameter) if isinstance(value, torch.Tensor) and value.shape == parameter.shape else value
