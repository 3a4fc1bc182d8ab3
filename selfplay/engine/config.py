"""Where a run is placed and how its workers are set up. Plain dataclasses: nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class WatchdogConfig:
    """A phase that shows no progress for this long ends the run with exit code 3."""

    stall_s: float = 300.0
    startup_s: float = 600.0  # imports and model loading, before the first request


@dataclass
class CheckpointConfig:
    every: int = 1  # steps between checkpoints; a kill loses at most the steps since the last one
    keep: int = 2


@dataclass
class RolloutConfig:
    """vLLM servers."""

    dtype: str = "float32"
    max_num_seqs: int = 128
    max_num_batched_tokens: int = 4096
    kv_cache_mib: int = 64  # CPU only; on a GPU gpu_memory_utilization decides
    gpu_memory_utilization: float = 0.6
    tensor_parallel: int = 1
    enforce_eager: bool = True
    agent_workers: int = 1


@dataclass
class FsdpConfig:
    """FSDP2 actors."""

    dtype: str = "float32"
    max_tokens_per_rank: int = 2048  # tokens of one micro-batch; on the CPU, padding included
    offload: bool = False
    gradient_checkpointing: bool = False
    remove_padding: bool = False  # needs flash-attn
    threads: int = 2  # torch threads of a rank, CPU only


@dataclass
class AnchorConfig:
    """The frozen model's server, where the system has one. Without GPUs it is a process like the others."""

    placement: str = "dedicated"  # dedicated: GPUs of its own | colocated: the first rank's, asleep during updates
    gpu_memory_utilization: float = 0.25  # colocated only: its share of the card, beside the policy's server


@dataclass
class ClusterConfig:
    """One machine or many: `nodes * ranks_per_node` FSDP ranks, one vLLM replica per tensor-parallel group."""

    name: str = "cpu"
    device: str = "cpu"  # cpu | cuda
    nodes: int = 1
    ranks_per_node: int = 1
    deterministic: bool = True  # request seeds, fixed row order: one seed, one result
    ray_address: str = ""  # empty: start Ray on this machine; otherwise join this cluster
    object_store_mib: int = 300
    gpu_gib: float = 0.0  # memory of one card, to compare the estimate with; 0: not known
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    fsdp: FsdpConfig = field(default_factory=FsdpConfig)
    anchor: AnchorConfig = field(default_factory=AnchorConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    watchdog: WatchdogConfig = field(default_factory=WatchdogConfig)

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value or combination that cannot work."""
        positive = {
            "nodes": self.nodes,
            "ranks_per_node": self.ranks_per_node,
            "object_store_mib": self.object_store_mib,
            "rollout.max_num_seqs": self.rollout.max_num_seqs,
            "rollout.max_num_batched_tokens": self.rollout.max_num_batched_tokens,
            "rollout.tensor_parallel": self.rollout.tensor_parallel,
            "rollout.agent_workers": self.rollout.agent_workers,
            "fsdp.max_tokens_per_rank": self.fsdp.max_tokens_per_rank,
            "fsdp.threads": self.fsdp.threads,
            "checkpoint.every": self.checkpoint.every,
            "checkpoint.keep": self.checkpoint.keep,
            "watchdog.stall_s": self.watchdog.stall_s,
            "watchdog.startup_s": self.watchdog.startup_s,
        }
        for key, value in positive.items():
            if value <= 0:
                raise ValueError(f"{key}: {value} is not allowed; it must be above 0")
        if self.nodes > 1 and not self.ray_address:
            raise ValueError(
                f"ray_address: '' is not allowed with nodes={self.nodes}; it is a Ray head's, as host:6379"
            )
        if self.device not in ("cpu", "cuda"):
            raise ValueError(f"device: {self.device!r} is not allowed; it is cpu or cuda")
        if self.anchor.placement not in ("dedicated", "colocated"):
            raise ValueError(
                f"anchor.placement: {self.anchor.placement!r} is not allowed; it is dedicated or colocated"
            )
        for key, share in (
            ("rollout.gpu_memory_utilization", self.rollout.gpu_memory_utilization),
            ("anchor.gpu_memory_utilization", self.anchor.gpu_memory_utilization),
        ):
            if not 0 < share < 1:
                raise ValueError(f"{key}: {share} is not allowed; it is a share above 0 and below 1")
        for key, dtype in (("rollout.dtype", self.rollout.dtype), ("fsdp.dtype", self.fsdp.dtype)):
            if dtype not in ("float32", "bfloat16"):
                raise ValueError(f"{key}: {dtype!r} is not allowed; it is float32 or bfloat16")
        if self.device == "cpu":
            if self.rollout.tensor_parallel != 1:
                got = self.rollout.tensor_parallel
                raise ValueError(f"rollout.tensor_parallel: {got} is not allowed with device=cpu; it must be 1")
            if self.fsdp.remove_padding:
                raise ValueError("fsdp.remove_padding: true is not allowed with device=cpu; it needs flash-attn")
        if (self.nodes * self.ranks_per_node) % self.rollout.tensor_parallel:
            raise ValueError(
                f"rollout.tensor_parallel: {self.rollout.tensor_parallel} does not divide the"
                f" {self.nodes * self.ranks_per_node} ranks"
            )

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node
