"""Agent-loop workers that start before there is a server to talk to, so that their imports overlap with its start."""

from __future__ import annotations

from typing import Any

import ray
from omegaconf import DictConfig
from verl.trainer.ppo.v1 import AgentLoopManagerTQ
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ

_Worker = AgentLoopWorkerTQ.__ray_metadata__.modified_class  # the class beneath Ray's wrapper


class AgentLoopWorker(_Worker):  # type: ignore[misc, valid-type]
    """verl's worker, given its client late."""

    def set_client(self, client: Any) -> None:
        self.llm_client = client


class AgentLoops(AgentLoopManagerTQ):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(AgentLoopWorker)

    @classmethod
    def begin(cls, config: DictConfig) -> AgentLoops:
        """Ask for the workers; they may not be up yet."""
        loops: AgentLoops = cls.create(config=config, llm_client=None, teacher_client=None)
        return loops

    def connect(self, client: Any) -> None:
        """Wait for the workers and give them `client`."""
        ray.get([worker.set_client.remote(client) for worker in self.agent_loop_workers])
