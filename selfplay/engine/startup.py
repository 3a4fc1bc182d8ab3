"""Bringing a session up: Ray, then verl's trainer with its FSDP ranks and vLLM servers, then the agent-loop workers."""

from __future__ import annotations

import importlib
import json
import logging
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selfplay.engine.config import ClusterConfig
from selfplay.engine.heartbeat import Heartbeat
from selfplay.engine.policy import PolicySpec

log = logging.getLogger(__name__)

ERROR_LOG = "episode-errors.log"
QUEUE_STORAGE = {"num_data_storage_units": 1, "total_storage_size": 100_000}  # rows in flight: one process holds them


@dataclass(frozen=True)
class EpisodeSpec:
    """An episode by name: `factory` is `module:function`, called with `settings` (JSON values) in the workers."""

    name: str
    factory: str
    settings: dict[str, Any]


class Loading:
    """The heavy imports of this process, under way in a thread while Ray starts.

    One thread does all of them, in order: two threads that import packages which import each other can see half of one.
    """

    def __init__(self, *, accelerated: bool) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="imports")
        self._environment = self._thread.submit(_environment_of_verl) if accelerated else None
        self._queue = self._thread.submit(importlib.import_module, "transfer_queue")
        self._trainer = self._thread.submit(importlib.import_module, "selfplay.engine.trainer")
        self._thread.shutdown(wait=False)

    def environment(self) -> dict[str, str]:
        """verl's variables for its workers; they are about accelerators, so without one there are none."""
        return self._environment.result() if self._environment else {}

    def queue(self) -> Any:
        return self._queue.result()

    def trainer(self) -> Any:
        return self._trainer.result()


def _environment_of_verl() -> dict[str, str]:
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    return dict(get_ppo_ray_runtime_env(None)["env_vars"])


RAY_ATTEMPTS = 3
NOT_FOR_WORKERS = {"VLLM_API_KEY": ""}  # vLLM hands its variables on in settings that Ray writes into its log
JOIN_PAUSE_S = 5.0
RAY_TOO_SLOW = "timed out during startup"  # Ray 2.60 gives its own processes 30 s, whatever else the machine does


@contextmanager
def own_handlers() -> Iterator[None]:
    """Ray takes SIGTERM for itself when it starts, and aborts the process on it: give it back."""
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)} if main else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def start_ray(cluster: ClusterConfig, environment: Mapping[str, str]) -> str:
    """Start Ray here, or join `cluster.ray_address`; `environment` is the workers'. Returns Ray's session directory."""
    import ray

    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
    options["runtime_env"] = {"env_vars": dict(environment) | NOT_FOR_WORKERS}
    if cluster.ray_address:
        options["address"] = cluster.ray_address
    else:
        options["address"] = "local"  # a killed run must not make us join its remains
        options |= {"include_dashboard": False, "object_store_memory": cluster.object_store_mib * 2**20}
        if cluster.device == "cpu":
            options |= {"num_gpus": cluster.world_size + 1, "num_cpus": 32}  # logical: verl places by them
    for attempt in range(RAY_ATTEMPTS):
        try:
            with own_handlers():
                context = ray.init(**options)
            return str(context.address_info.get("session_dir", ""))
        except Exception as error:
            ray.shutdown()
            joins = bool(cluster.ray_address)  # a head that was started a moment ago may not be complete
            if not (joins or RAY_TOO_SLOW in str(error)) or attempt == RAY_ATTEMPTS - 1:
                raise
            log.warning("Ray is not up yet; once more")
            time.sleep(JOIN_PAUSE_S if joins else 0.0)
    raise AssertionError("the last attempt returns or raises")


def start_trainer(
    policy: PolicySpec,
    cluster: ClusterConfig,
    agent_yaml: Path,
    seed: int,
    log_dir: Path,
    heartbeat: Heartbeat,
    loading: Loading,
) -> Any:
    """verl's trainer with all its workers up, the first weights synced and the ranks' generators seeded.

    The order is what makes it fast: queue, servers, agent loops and ranks all import at once.
    """
    from omegaconf import OmegaConf

    tq = loading.queue()
    tq.init(OmegaConf.create({"backend": {"SimpleStorage": QUEUE_STORAGE}}))
    heartbeat.beat("the queue is up")
    trainer_module = loading.trainer()

    from verl.trainer.ppo.v1 import get_trainer_cls

    from selfplay.engine.agent_workers import AgentLoops
    from selfplay.engine.verl_config import verl_config

    config = verl_config(policy, cluster, agent_yaml, seed)
    OmegaConf.set_struct(config, False)
    config.transfer_queue.enable = True
    OmegaConf.resolve(config)
    trainer = get_trainer_cls(trainer_module.TRAINER_NAME)(config=config)
    trainer.heartbeat, trainer.error_log = heartbeat, log_dir / ERROR_LOG
    trainer.agent_loop_manager = AgentLoops.begin(config)
    trainer.init()
    heartbeat.beat("actors and servers are up")
    trainer.agent_loop_manager.connect(trainer.get_llm_client())
    trainer.actor_rollout_wg.seed(seed)
    return trainer


def router_yaml(folder: Path) -> Path:
    """The file that tells verl which balancer to start, beside the episodes' own."""
    return folder / "router.yaml"


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
    router_yaml(path.parent).write_text(json.dumps({"router_class": "selfplay.engine.router.OnlyServer"}))
    return path
