"""verl's V1 trainer, driven one step at a time by an algorithm instead of by a data loader.

Everything between the prompts and the weight sync is verl's; the overrides feed it tasks, keep the rows in a fixed
order, take a step with any number of rows, and let the algorithm compute its own advantages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
import transfer_queue as tq
from omegaconf import OmegaConf, open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer
from verl.utils import tensordict_utils as tu
from verl.utils.debug import marked_timer
from verl.utils.metric import reduce_metrics
from verl.utils.py_functional import rename_dict
from verl.workers.rollout.llm_server import LLMServerClient

from selfplay.engine.episode import Task
from selfplay.engine.heartbeat import Heartbeat
from selfplay.engine.replay import StrictReplayBuffer
from selfplay.engine.servers import DirectClient, Server, adopt, launch_frozen, launch_policy, shares_card
from selfplay.engine.workers import PolicyWorker

TRAINER_NAME = "selfplay"


@dataclass(frozen=True)
class RowView:
    """A row as the algorithm sees it when it computes advantages."""

    key: str
    role: str
    group: str
    reward: float
    tokens: int  # tokens the policy wrote
    entropy: float  # of the policy, nats, mean over those tokens
    trained: bool  # False: masked out of the loss
    record: dict[str, Any]


AdvantageFn = Callable[[Sequence[RowView]], Sequence[float]]  # one advantage a row, for all of the row's tokens


def is_padding(tag: dict[str, Any]) -> bool:
    """Padding rows copy the columns of a real row; only the tag tells them apart."""
    return bool(tag.get("is_padding", False))


def rows_of(column: torch.Tensor) -> list[torch.Tensor]:
    return list(column.unbind()) if column.is_nested else list(column)


@register_trainer(TRAINER_NAME)
class SelfPlayTrainer(PPOTrainerSync):
    heartbeat: Heartbeat
    error_log: Path

    def __init__(self, config: Any) -> None:
        with open_dict(config):
            config.trainer.v1.trainer_mode = "sync"  # verl takes every other name for an asynchronous mode
        super().__init__(config)
        self.curr_step_profile = False
        self.advantage_fn: AdvantageFn | None = None
        self.frozen: Server | None = None
        self.rows: list[RowView] = []
        self.tokenizer: Any

    # ---------------------------------------------------------------- set-up

    def _init_dataloader(self) -> None:
        """Tasks come from the algorithm. Only the optimizer's horizon is set here: the driver owns the schedule."""
        self.total_training_steps = 1
        OmegaConf.set_struct(self.config, True)
        with open_dict(self.config):
            self.config.actor_rollout_ref.actor.optim.total_training_steps = 1

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        for role in list(self.role_worker_mapping):
            self.role_worker_mapping[role] = ray.remote(PolicyWorker)

    def _setup(self) -> None:
        # Servers are launched first, without waiting: their start overlaps with the ranks'.
        path, trainer = self.config.trainer.get("frozen_model", None), self.config.trainer
        shared = shares_card(self.config)
        frozen = launch_frozen(self.config, path) if path and not shared else None
        beside_ranks = trainer.device == "cpu" and trainer.nnodes == 1  # weights travel through the host's memory
        adopt(launch_policy(self.config, trainer.n_gpus_per_node) if beside_ranks else [])
        super()._setup()  # its servers sleep when it returns
        buffer = self.replay_buffer
        assert isinstance(buffer, StrictReplayBuffer)
        buffer.error_log = self.error_log
        buffer.progress = lambda done, total: self.heartbeat.beat("sessions", done, total)
        if path and shared:
            frozen = launch_frozen(self.config, path)
        if frozen is not None:
            self.frozen = frozen.wait()
            self.frozen.sleep()  # until the first weights are sent

    # ---------------------------------------------------------------- the servers' shifts

    def rest_servers(self) -> None:
        """Leave the cards to the ranks; without cards nobody sleeps."""
        self.checkpoint_manager.sleep_replicas()
        if self.frozen is not None:
            self.frozen.sleep()

    def send_weights(self) -> None:
        """Wake the policy's servers with its present weights, and then the frozen model's."""
        self.checkpoint_manager.update_weights(self.global_steps)
        if self.frozen is not None:
            self.frozen.wake_up()

    def on_init_end(self) -> None:
        self.send_weights()

    def on_sample_end(self) -> None:
        self.rest_servers()

    def on_step_end(self) -> None:
        with marked_timer("update_weights", self.timing_raw):
            self.send_weights()

    def get_llm_client(self) -> LLMServerClient:
        replicas = self.llm_server_manager.get_replicas()
        # One server needs no balancing, and the balancer costs a message to another process for every request.
        client = DirectClient(self.config, replicas[0].servers[0]) if len(replicas) == 1 else super().get_llm_client()
        # What is frozen reaches the episodes with the client.
        client.frozen = DirectClient(self.config, self.frozen.handle) if self.frozen else None
        return client

    # ---------------------------------------------------------------- one step

    def train_on(self, tasks: Sequence[Task], advantage_fn: AdvantageFn) -> tuple[KVBatchMeta, dict[str, Any]]:
        """Roll out `tasks`, update the actor once on all rows, sync the weights; returns the batch and metrics.

        The caller reads what it wants of the batch and then calls `forget`.
        """
        metrics: dict[str, Any] = {}
        self.timing_raw: dict[str, float] = {}
        self.advantage_fn = advantage_fn
        with self.heartbeat.phase("generate"):
            self._submit_batch_to_rollout(self._batch_of(tasks))
        batch = self._step_once(metrics, self.timing_raw, len(tasks))
        with self.heartbeat.phase("sync"):
            self.on_step_end()
        return batch, metrics

    def forget(self, batch: KVBatchMeta) -> None:
        """Drop the batch's rows from the queue and go on to the next step."""
        tq.kv_clear(keys=batch.keys, partition_id=batch.partition_id)
        self.global_steps += 1

    def _batch_of(self, tasks: Sequence[Task]) -> TensorDict:
        def objects(values: Sequence[Any]) -> np.ndarray:
            out = np.empty(len(values), dtype=object)
            out[:] = values
            return out

        batch = tu.get_tensordict(
            {
                # No underscore inside: verl splits row keys at it. Fixed, so that the order of rows is.
                "uid": objects([f"s{self.global_steps:06d}x{i:04d}" for i in range(len(tasks))]),
                "index": objects(list(range(len(tasks)))),
                "task": objects([json.dumps(dict(t.payload), ensure_ascii=False) for t in tasks]),
                "agent_name": objects([t.episode for t in tasks]),
                "__rollout_n__": objects([t.sessions for t in tasks]),
            }
        )
        tu.assign_non_tensor_data(batch, "global_steps", self.global_steps)
        return batch

    def _step_once(self, metrics: dict[str, Any], timing_raw: dict[str, float], sample_batch_size: int) -> KVBatchMeta:
        with self.heartbeat.phase("generate"):
            return super()._step_once(metrics, timing_raw, sample_batch_size)

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        return dp_size  # stock: also the mini-batch times n, which turns a ragged batch into several updates

    def _balance_batch(self, batch: KVBatchMeta, metrics: dict[str, Any], **kwargs: Any) -> KVBatchMeta:
        batch.reorder(sorted(range(len(batch)), key=lambda i: row_order(batch.keys[i])))
        return super()._balance_batch(batch, metrics, **kwargs)

    def _compute_old_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        with self.heartbeat.phase("log_probs"):
            return super()._compute_old_log_prob(batch, metrics)

    def _compute_ref_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        with self.heartbeat.phase("ref_log_probs"):
            return super()._compute_ref_log_prob(batch, metrics)

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """One advantage a row, from the algorithm; padding rows get none."""
        assert self.advantage_fn is not None
        with self.heartbeat.phase("advantages"):
            fields = ["response_mask", "rm_scores", "entropy", "role", "group", "record"]
            data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
            masks, scores, entropies = (rows_of(data[name]) for name in fields[:3])
            real = [i for i, tag in enumerate(batch.tags) if not is_padding(tag)]
            real.sort(key=lambda i: row_order(batch.keys[i]))
            role, group, record = list(data["role"]), list(data["group"]), list(data["record"])
            self.rows = [
                RowView(
                    key=batch.keys[i],
                    role=role[i],
                    group=group[i],
                    reward=float(scores[i].sum()),
                    tokens=int(masks[i].sum()),
                    entropy=float((entropies[i] * masks[i]).sum() / max(1, int(masks[i].sum()))),
                    trained=bool(masks[i].any()),
                    record=json.loads(record[i]),
                )
                for i in real
            ]
            values = dict(zip(real, self.advantage_fn(self.rows), strict=True))
            advantages = torch.nested.as_nested_tensor(
                [mask.float() * values.get(i, 0.0) for i, mask in enumerate(masks)], layout=torch.jagged
            )
            columns = TensorDict({"advantages": advantages, "returns": advantages.clone()}, batch_size=len(batch))
            return tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=columns)

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """One optimizer step (times `ppo_epochs`) on all rows, however many there are."""
        actor = self.config.actor_rollout_ref.actor
        batch.extra_info.update(
            {
                "calculate_entropy": actor.calculate_entropy or actor.entropy_coeff != 0.0,
                "distillation_use_topk": False,
                "distillation_only": False,
                "global_batch_size": sum(not is_padding(tag) for tag in batch.tags),
                "mini_batch_size": len(batch),
                "epochs": actor.ppo_epochs,
                "seed": actor.data_loader_seed,
                "dataloader_kwargs": {"shuffle": False},
                "temperature": self.config.actor_rollout_ref.rollout.temperature,
            }
        )
        if not any(row.trained for row in self.rows):
            return batch  # a loss over no token is 0/0
        with self.heartbeat.phase("update"):
            output = self.actor_rollout_wg.update_actor(batch)
        output = rename_dict(output["metrics"], "actor/")
        output["perf/mfu/actor"] = output.pop("actor/mfu")
        metrics.update(reduce_metrics(output))
        return batch


def row_order(key: str) -> tuple[str, int, int]:
    """Rows sort by prompt, session and place in the session; as text, session 10 would come before 2."""
    uid, session, index = key.rsplit("_", 2)
    return uid, int(session), int(index)
