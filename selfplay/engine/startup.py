"""Bringing a session up: Ray, then verl's trainer with its FSDP ranks and vLLM servers, then the agent-loop workers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selfplay.engine.config import ClusterConfig
from selfplay.engine.heartbeat import Heartbeat

ERROR_LOG = "episode-errors.log"


@dataclass(frozen=True)
class EpisodeSpec:
    """An episode by name: `factory` is `module:function`, called with `settings` (JSON values) in the workers."""

    name: str
    factory: str
    settings: dict[str, Any]


def start_ray(cluster: ClusterConfig, environment: Mapping[str, str]) -> str:
    """Start Ray here, or join `cluster.ray_address`; returns Ray's session directory."""
    import ray
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    env = {**get_ppo_ray_runtime_env(None)["env_vars"], **environment}
    options: dict[str, Any] = {"runtime_env": {"env_vars": env}, "log_to_driver": False, "logging_level": "warning"}
    if cluster.ray_address:
        options["address"] = cluster.ray_address
    else:
        options["address"] = "local"  # a killed run must not make us join its remains
        options |= {"include_dashboard": False, "object_store_memory": cluster.object_store_mib * 2**20}
        if cluster.device == "cpu":
            options |= {"num_gpus": cluster.world_size + 1, "num_cpus": 32}  # logical: verl places by them
    context = ray.init(**options)
    return str(context.address_info.get("session_dir", ""))


def start_trainer(
    policy: Any, cluster: ClusterConfig, agent_yaml: Path, seed: int, log_dir: Path, heartbeat: Heartbeat
) -> Any:
    """verl's trainer with all its workers up, the first weights synced and the ranks' generators seeded."""
    import ray
    import transfer_queue as tq
    from omegaconf import OmegaConf
    from verl.trainer.ppo.v1 import AgentLoopManagerTQ, get_trainer_cls

    import selfplay.engine.trainer as trainer_module
    from selfplay.engine.verl_config import verl_config

    config = verl_config(policy, cluster, agent_yaml, seed)
    OmegaConf.set_struct(config, False)
    config.transfer_queue.enable = True
    OmegaConf.resolve(config)
    tq.init(config.transfer_queue)
    trainer = get_trainer_cls(trainer_module.TRAINER_NAME)(config=config)
    trainer.heartbeat, trainer.error_log = heartbeat, log_dir / ERROR_LOG
    trainer.init()
    heartbeat.beat("actors and servers are up")
    trainer.agent_loop_manager = AgentLoopManagerTQ.create(
        config=config,
        llm_client=trainer.get_llm_client(),
        teacher_client=None,
        reward_loop_worker_handles=trainer.get_reward_handles(),
    )
    ray.get([worker.__ray_ready__.remote() for worker in trainer.agent_loop_manager.agent_loop_workers])
    trainer.actor_rollout_wg.seed(seed)
    return trainer


def episodes_yaml(episodes: Sequence[EpisodeSpec], cluster: ClusterConfig, seed: int, log_dir: Path) -> Path:
    """Write the file by which the agent-loop workers find the episodes; an old error log is removed."""
    error_log = (log_dir / ERROR_LOG).resolve()
    error_log.unlink(missing_ok=True)
    entries = [
        {
            "name": spec.name,
            "_target_": "selfplay.engine.agent_loop.EpisodeLoop",
            "factory": spec.factory,
            "settings": json.dumps(spec.settings, sort_keys=True),
            "run_seed": seed,
            "deterministic": cluster.deterministic,
            "error_log": str(error_log),
        }
        for spec in episodes
    ]
    path = (log_dir / "episodes.yaml").resolve()
    path.write_text(json.dumps(entries, indent=1), encoding="utf-8")  # JSON is YAML
    return path
