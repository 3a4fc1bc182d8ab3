"""vLLM servers launched without waiting: the policy's own on one CPU machine, and a frozen model's anywhere.

verl launches a server only when the FSDP ranks are up, and its balancer and agent loops after that: a chain of
processes that each import for 20 s. On one machine nothing in a server's start depends on the ranks, so here it starts
beside them and verl's replica adopts it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray
from omegaconf import DictConfig, open_dict
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from verl.plugin.platform import get_platform
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.replica import RolloutMode, RolloutReplicaRegistry
from verl.workers.rollout.vllm_rollout.vllm_async_server import vLLMHttpServer, vLLMReplica

FROZEN_RANK = 1000  # apart from the trainer's own replicas


@dataclass(frozen=True)
class Server:
    """A server actor and the answer it gives once it serves."""

    handle: Any
    launched: Any
    name: str
    shares_card: bool = False  # with a rank: it has to sleep while that rank updates

    def wait(self) -> Server:
        ray.get(self.launched)
        return self

    def sleep(self) -> None:
        """Free the card: weights go to the host's memory, the cache is dropped."""
        if self.shares_card:
            ray.get(self.handle.sleep.remote())

    def wake_up(self) -> None:
        if self.shares_card:
            ray.get(self.handle.wake_up.remote())


class DirectClient(LLMServerClient):
    """A client bound to one server, without a load balancer between."""

    def __init__(self, config: DictConfig, server: Any) -> None:
        super().__init__(config)
        self._server = server

    async def _acquire_server(self, request_id: str, **extra: Any) -> tuple[str, Any]:
        return "direct", self._server

    def _release_server(self, server_id: str, request_id: str | None = None) -> None:
        return None


def _launch(
    config: DictConfig, name: str, rank: int, mode: RolloutMode, options: dict[str, Any], devices: str = "0"
) -> Server:
    handle = (
        ray.remote(vLLMHttpServer)
        .options(
            name=name, max_concurrency=1000, runtime_env={"env_vars": get_platform().rollout_env_vars()}, **options
        )
        .remote(
            config=omega_conf_to_dataclass(config.actor_rollout_ref.rollout),
            model_config=config.actor_rollout_ref.model,
            rollout_mode=mode,
            workers=[],  # read for data parallelism inside a replica only
            replica_rank=rank,
            node_rank=0,
            gpus_per_node=1,
            nnodes=1,
            cuda_visible_devices=devices,
        )
    )
    return Server(handle, handle.launch_server.remote(), name, shares_card=mode is RolloutMode.COLOCATED)


def launch_frozen(config: DictConfig, model_path: str) -> Server:
    """A server whose weights are `model_path`'s and which no update touches; `trainer.frozen_placement` says where.

    With cards of its own Ray finds them. On a shared card it is launched on this machine, beside the first ranks, when
    the policy's server already sleeps: each takes its share of what it finds free.

    Leaner than a standalone replica group: no placement group, checkpoint worker or load balancer, which cost about
    10 s and half a gigabyte each on a laptop.
    """
    config = copy.deepcopy(config)
    with open_dict(config):
        config.actor_rollout_ref.model.path = model_path
        config.actor_rollout_ref.rollout.load_format = "auto"  # the trainer's servers start with dummy weights
        colocated = shares_card(config)
        if colocated:
            config.actor_rollout_ref.rollout.gpu_memory_utilization = config.trainer.frozen_memory
    shards = config.actor_rollout_ref.rollout.tensor_model_parallel_size
    name, devices = "selfplay_frozen", ",".join(map(str, range(shards)))
    if colocated:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        options: dict[str, Any] = {"num_gpus": 0, "scheduling_strategy": here}
        return _launch(config, name, FROZEN_RANK, RolloutMode.COLOCATED, options, devices)
    gpus = {} if get_platform().device_name == "cpu" else {"num_gpus": shards}
    return _launch(config, name, FROZEN_RANK, RolloutMode.STANDALONE, gpus, devices)


def shares_card(config: DictConfig) -> bool:
    """Whether the frozen model's server is on a card of the policy's; on the CPU there is nothing to share."""
    colocated: bool = config.trainer.get("frozen_placement") == "colocated"
    return colocated and get_platform().device_name != "cpu"


def launch_policy(config: DictConfig, replicas: int) -> list[Server]:
    """The policy's servers, under the names by which verl's ranks look for them when they send weights."""
    return [_launch(config, f"vllm_server_{rank}_0", rank, RolloutMode.HYBRID, {}) for rank in range(replicas)]


def adopt(servers: Sequence[Server]) -> None:
    """Let verl's replicas take `servers` instead of launching their own; with none they launch as they always do."""

    class AdoptedReplica(vLLMReplica):
        async def launch_servers(self) -> None:
            server = servers[self.replica_rank]
            await server.launched
            address, port = await server.handle.get_server_address.remote()
            self.servers = [server.handle]
            # What verl gives to its balancer: an only server's goes by name (see `OnlyServer`).
            self._server_handle = server.handle if len(servers) > 1 else server.name
            self._server_address = f"{address}:{port}"

    RolloutReplicaRegistry.register("vllm", lambda: AdoptedReplica if servers else vLLMReplica)
