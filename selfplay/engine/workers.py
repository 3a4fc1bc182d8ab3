"""The FSDP workers: verl's own, with the few methods that roles, phases and tests need.

verl's engines are registered for accelerators only though their code is device-agnostic; `CpuEngine` registers them
for the CPU with two small overrides, each with its reason.
"""

from __future__ import annotations

import hashlib
import os
import random
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from safetensors.torch import save_file
from verl.single_controller.base.decorator import Dispatch, register
from verl.utils import tensordict_utils as tu
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from selfplay.engine.environment import FSDP_THREADS
from selfplay.engine.micro_batches import sorted_by_length
from selfplay.engine.policy import WEIGHTS
from selfplay.engine.processes import own_socket
from selfplay.engine.state_files import StateFiles

ON_CPU = os.environ.get("VERL_PLATFORM") == "cpu"


@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu")
class CpuEngine(FSDPEngineWithLMHead):
    def _build_fsdp_module(self, module: torch.nn.Module) -> Any:
        # A reference engine gets CPUOffloadPolicy(pin_memory=True), and pinning needs an accelerator (verl 0.9.1).
        config, forward_only = self.engine_config, self.engine_config.forward_only
        object.__setattr__(config, "forward_only", False)
        try:
            return super()._build_fsdp_module(module)
        finally:
            object.__setattr__(config, "forward_only", forward_only)

    def forward_backward_batch(self, data: Any, loss_function: Any, forward_only: bool = False) -> Any:
        if not tu.get_non_tensor_data(data, "use_dynamic_bsz", True):
            return super().forward_backward_batch(data, loss_function, forward_only)
        with sorted_by_length():
            return super().forward_backward_batch(data, loss_function, forward_only)

    def prepare_model_outputs(
        self, output: Any, output_args: Any, micro_batch: Any, logits_processor_func: Any
    ) -> dict[str, torch.Tensor]:
        """Log-probs of the labels, and the entropy, in one call over all tokens.

        Without flash-attn verl 0.9.1 loops over tokens in Python, as many backward nodes as tokens; this is a third
        faster over a whole step and equal to six decimals.
        """

        def flag(key: str, default: bool = False) -> bool:
            return bool(tu.get_non_tensor_data(micro_batch, key, default))

        special = ("use_fused_kernels", "calculate_sum_pi_squared", "distillation_use_topk")
        if flag("use_remove_padding", True) or any(map(flag, special)):
            return super().prepare_model_outputs(output, output_args, micro_batch, logits_processor_func)
        offsets = micro_batch["input_ids"].offsets()
        real = torch.arange(output.logits.shape[1])[None] < offsets.diff()[:, None]
        logits = (output.logits / output_args["temperature"].view(-1, 1, 1))[real].float()
        labels = output_args["input_ids_rmpad_rolled"]
        log_probs = -F.cross_entropy(logits, labels, reduction="none")
        out = {"log_probs": torch.nested.nested_tensor_from_jagged(log_probs, offsets)}
        if flag("calculate_entropy"):
            log_p = F.log_softmax(logits, -1)
            out["entropy"] = torch.nested.nested_tensor_from_jagged(-(log_p.exp() * log_p).sum(-1), offsets)
        return out


def meeting_place(rank: int, world_size: int) -> Any:
    """The store where the ranks find each other. torch's own would listen at every address, this one at rank 0's."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    listening: dict[str, Any] = {}
    if rank == 0:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listening["master_listen_fd"] = socket.create_server((address, port), family=family).detach()
    return dist.TCPStore(address, port, world_size, is_master=rank == 0, **listening)  # type: ignore[attr-defined]


class PolicyTrainingWorker(TrainingWorker):
    def __init__(self, config: Any) -> None:
        if ON_CPU:
            # verl asks for the backend "cpu:gloo,cpu:gloo", which torch rejects; it keeps a group that exists.
            if not dist.is_initialized():
                rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
                store = meeting_place(rank, world_size)
                dist.init_process_group("cpu:gloo", store=store, rank=rank, world_size=world_size)
            torch.set_num_threads(int(os.environ.get(FSDP_THREADS, "1")))  # Ray gives an actor one
        super().__init__(config)


class PolicyWorker(ActorRolloutRefWorker):
    """Actor, rollout and reference of one rank, with the state switches that phases need."""

    actor_worker_cls = PolicyTrainingWorker
    ref_worker_cls = PolicyTrainingWorker

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def init_model(self) -> None:
        """verl's; the weights of this run go to the servers of this run, and checkpoints are read by our own reader."""
        super().init_model()
        if self.actor is not None:
            engine = self.actor.engine
            engine.checkpoint_manager = StateFiles(
                model=engine.module,
                optimizer=engine.optimizer,
                lr_scheduler=engine.lr_scheduler,
                processing_class=engine.model_config.get_processor(),
                checkpoint_config=engine.checkpoint_config,
                trust_remote_code=engine.model_config.trust_remote_code,
            )
        if ON_CPU and self.rollout is not None:
            self.rollout.zmq_handle = own_socket(self.rollout.zmq_handle)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def set_lr(self, lr: float, reset_optimizer: bool = False) -> None:
        """Set the learning rate in place: verl's checkpoint manager holds references to both objects."""
        engine = self.actor.engine
        if reset_optimizer:
            engine.optimizer.state.clear()
            engine.lr_scheduler.last_epoch = 0
        scheduler = engine.lr_scheduler
        scheduler.base_lrs = [lr] * len(engine.optimizer.param_groups)
        for group, factor in zip(engine.optimizer.param_groups, scheduler.lr_lambdas, strict=True):
            group["initial_lr"] = lr
            group["lr"] = lr * factor(scheduler.last_epoch)
        scheduler._last_lr = [group["lr"] for group in engine.optimizer.param_groups]

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def seed(self, seed: int) -> None:
        """Seed torch, numpy and random of this rank."""
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def anchor_reference(self) -> None:
        """Give the reference model, if there is one, the actor's present weights: what the KL term holds on to."""
        if self.ref is not None:
            self.ref.engine.module.load_state_dict(self.actor.engine.module.state_dict())

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def export(self, folder: str) -> str:
        """Write the whole weights as `folder/model.safetensors`, by rank 0; the file's SHA-256, "" on other ranks."""
        tensors, _ = self.actor.engine.get_per_tensor_param()
        whole = {name: tensor.detach().cpu().clone() for name, tensor in tensors}  # every rank takes part
        if dist.get_rank() != 0:
            return ""
        path = Path(folder, WEIGHTS)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{WEIGHTS}.{os.getpid()}")
        save_file(whole, partial)
        os.replace(partial, path)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def perturb(self, scale: float) -> None:
        """Add noise to the actor's weights without telling the rollout servers: for the test of the weight sync."""
        with torch.no_grad():
            for parameter in self.actor.engine.module.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=scale)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def state_digest(self) -> dict[str, str]:
        """sha256 of this rank's weights and of its optimizer state, for comparing states bit by bit."""
        engine = self.actor.engine
        optimizer = engine.optimizer.state_dict()["state"]
        return {
            "weights": _digest(sorted(engine.module.state_dict().items())),
            "optimizer": _digest((f"{i}.{k}", v) for i, s in sorted(optimizer.items()) for k, v in sorted(s.items())),
        }


def _digest(items: Iterable[tuple[str, Any]]) -> str:
    digest = hashlib.sha256()
    for name, value in items:
        digest.update(name.encode())
        if isinstance(value, torch.Tensor):
            local = value.to_local() if hasattr(value, "to_local") else value
            digest.update(local.detach().reshape(-1).contiguous().cpu().view(torch.uint8).numpy().tobytes())
        else:
            digest.update(repr(value).encode())
    return digest.hexdigest()
