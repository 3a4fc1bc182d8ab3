"""What bare verl needs to train on a CPU at all: the classes that Ray imports in its processes, for `bench_trainers`.

verl's own trainer, task runner, agent loop, reward loop and data loader do the work. Ours are the ranks' class
(`PolicyWorker`: verl makes no process group on a CPU), the servers' weight sync and the platform. Beyond that the
`BENCH_BARE` environment variable decides: `equal` gives it our two speed-ups that are about the CPU and not about the
trainer (replay buffer polled every 0.02 s instead of 2 s; log-probs in one call instead of a Python loop over tokens),
`stock` leaves both as verl has them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import ray
from bench_trainers import clocks
from omegaconf import open_dict
from verl.trainer.main_ppo import TaskRunnerV1
from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from selfplay.engine.replay import POLL_S
from selfplay.engine.workers import CpuEngine, PolicyWorker

MODE = "bench_bare"
ENDS = "BENCH_STEP_ENDS"  # the file to which each step's end is written, see `bench_trainers.clocks`
DRIVER = "BENCH_DRIVER"  # number of the process that started all others
EQUAL = os.environ.get("BENCH_BARE", "equal") == "equal"

if not EQUAL:
    CpuEngine.prepare_model_outputs = FSDPEngineWithLMHead.prepare_model_outputs  # type: ignore[method-assign]
    CpuEngine.forward_backward_batch = FSDPEngineWithLMHead.forward_backward_batch  # type: ignore[method-assign]


class BareWorker(PolicyWorker):
    """Lives here so that a rank imports this module, and with it the choice of the engine."""


@register_trainer(MODE)
class BareTrainer(PPOTrainerSync):
    def __init__(self, config: Any) -> None:
        with open_dict(config):
            config.trainer.v1.trainer_mode = "sync"  # verl takes every other name for an asynchronous mode
        super().__init__(config)
        if EQUAL:
            self.replay_buffer.poll_interval = POLL_S

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        for role in list(self.role_worker_mapping):
            self.role_worker_mapping[role] = ray.remote(BareWorker)

    def on_step_end(self) -> None:
        super().on_step_end()
        with Path(os.environ[ENDS]).open("a") as file:
            file.write(json.dumps(clocks(int(os.environ[DRIVER]))) + "\n")


@ray.remote
class BareRunner(TaskRunnerV1.__ray_metadata__.modified_class):  # type: ignore[misc]
    def run(self, config: Any) -> None:
        import bench_bare  # noqa: F401  (registers the trainer in this process; Ray sends the class without its module)

        super().run(config)
