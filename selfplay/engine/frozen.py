"""A frozen model beside the trainer: one vLLM server with weights of its own that no update touches.

Leaner than a standalone replica group: no placement group, checkpoint worker or load balancer, which cost about 10 s
and half a gigabyte each on a laptop.
"""

from __future__ import annotations

import copy
from typing import Any

import ray
from omegaconf import DictConfig, open_dict
from verl.plugin.platform import get_platform
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.replica import RolloutMode

REPLICA_RANK = 1000  # apart from the trainer's own replicas


class DirectClient(LLMServerClient):
    """A client bound to one server, without a load balancer between."""

    def __init__(self, config: DictConfig, server: Any) -> None:
        super().__init__(config)
        self._server = server

    async def _acquire_server(self, request_id: str, **extra: Any) -> tuple[str, Any]:
        return "frozen", self._server

    def _release_server(self, server_id: str, request_id: str | None = None) -> None:
        return None


class FrozenServer:
    """Starts launching at once; `wait` returns when it answers."""

    def __init__(self, config: DictConfig, model_path: str) -> None:
        from verl.workers.rollout.vllm_rollout.vllm_async_server import vLLMHttpServer

        self.config = copy.deepcopy(config)
        with open_dict(self.config):
            self.config.actor_rollout_ref.model.path = model_path
            self.config.actor_rollout_ref.rollout.load_format = "auto"  # the trainer's servers start with dummy weights
        rollout = self.config.actor_rollout_ref.rollout
        options = {"name": "selfplay_frozen", "max_concurrency": 1000}
        if get_platform().device_name != "cpu":
            options["num_gpus"] = rollout.tensor_model_parallel_size
        self.server = (
            ray.remote(vLLMHttpServer)
            .options(runtime_env={"env_vars": get_platform().rollout_env_vars()}, **options)
            .remote(
                config=omega_conf_to_dataclass(rollout),
                model_config=self.config.actor_rollout_ref.model,
                rollout_mode=RolloutMode.STANDALONE,
                workers=[],
                replica_rank=REPLICA_RANK,
                node_rank=0,
                gpus_per_node=1,
                nnodes=1,
                cuda_visible_devices="0",
            )
        )
        self._launch = self.server.launch_server.remote()

    def wait(self) -> FrozenServer:
        ray.get(self._launch)
        return self

    def client(self) -> DirectClient:
        return DirectClient(self.config, self.server)
