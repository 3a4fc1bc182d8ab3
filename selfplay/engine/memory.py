"""How much of a GPU a run takes: an estimate before anything is started, by what takes it.

Two phases share a card. While the policy is updated the server sleeps; while it generates, the trainer's state stays
where it is unless it is offloaded. The estimate is the larger of both. Bytes are of the tensors that the phases hold;
what an allocator loses to fragments is a share on top.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from selfplay.backbones.config import BackboneConfig
from selfplay.backbones.folders import model_folder
from selfplay.engine.config import ClusterConfig

GIB = 2**30
FRAGMENTS = 1.10
CONTEXT_GIB = 1.5  # CUDA's context and NCCL's buffers of a rank and of a server
LEAST_KV_GIB = 1.0  # below it a server holds too few sequences to be of use
BYTES = {"float32": 4, "bfloat16": 2}


@dataclass(frozen=True)
class Shape:
    """What decides a decoder's size. `kv_width` is the width of the keys of one layer."""

    vocab: int
    hidden: int
    intermediate: int
    layers: int
    attention_width: int
    kv_width: int
    tied: bool = False

    @property
    def parameters(self) -> int:
        attention = self.hidden * (2 * self.attention_width + 2 * self.kv_width)
        embeddings = self.vocab * self.hidden * (1 if self.tied else 2)
        return embeddings + self.layers * (attention + 3 * self.hidden * self.intermediate + 2 * self.hidden)

    @property
    def layer(self) -> int:
        """Parameters of one layer."""
        attention = self.hidden * (2 * self.attention_width + 2 * self.kv_width)
        return attention + 3 * self.hidden * self.intermediate


# Of the presets of the hub, whose files need not be here (from the models' own config.json).
KNOWN = {
    "Qwen/Qwen3-4B-Base": Shape(151936, 2560, 9728, 36, 4096, 1024, tied=True),
    "XiaomiMiMo/MiMo-7B-Base": Shape(151680, 4096, 11008, 36, 4096, 1024),
    "Qwen/Qwen2.5-Coder-3B-Instruct": Shape(151936, 2048, 11008, 36, 2048, 256, tied=True),
}


def shape_of(backbone: BackboneConfig) -> Shape | None:
    """The model's shape: of `tiny` from its settings, of others from their config.json or KNOWN; None if unknown."""
    if backbone.kind == "tiny":
        width = backbone.hidden_size
        kv = width // backbone.heads * backbone.kv_heads
        return Shape(backbone.vocab_size, width, backbone.intermediate_size, backbone.layers, width, kv, tied=True)
    folder = model_folder(backbone.path) if backbone.kind == "hf" else None
    if folder is not None and (folder / "config.json").is_file():
        return _read(folder / "config.json")
    return KNOWN.get(backbone.path)


def _read(path: Path) -> Shape | None:
    found = json.loads(path.read_text(encoding="utf-8"))
    try:
        heads = int(found["num_attention_heads"])
        head = int(found.get("head_dim") or found["hidden_size"] // heads)
        return Shape(
            int(found["vocab_size"]),
            int(found["hidden_size"]),
            int(found["intermediate_size"]),
            int(found["num_hidden_layers"]),
            heads * head,
            int(found.get("num_key_value_heads") or heads) * head,
            bool(found.get("tie_word_embeddings", False)),
        )
    except KeyError:  # another architecture
        return None


@dataclass(frozen=True)
class Estimate:
    """GiB of one card by what takes them, in the update and while generating; `kv_tokens` fit into a server's cache."""

    update: dict[str, float]
    generate: dict[str, float]
    kv_tokens: int
    card: float

    @property
    def peak(self) -> float:
        return max(sum(self.update.values()), sum(self.generate.values()))

    @property
    def fits(self) -> bool:
        return not self.card or self.peak <= self.card


def estimate(
    shape: Shape, cluster: ClusterConfig, *, trained_share: float = 1.0, reference: bool = False, anchor: bool = False
) -> Estimate:
    """The estimate for one card.

    Args:
        anchor: the system has a frozen model's server; it counts where it shares a card of the policy's.
        trained_share: of the parameters, that have gradients and optimizer states (adapters: less than 1).
        reference: a frozen copy of the policy is held for a KL term.
    """
    n, ranks = shape.parameters, cluster.world_size
    master = BYTES[cluster.fsdp.dtype]
    resident = not cluster.fsdp.offload
    weights = n * master / ranks
    states = 2 * 4 * n * trained_share / ranks
    gradients = 4 * n * trained_share / ranks
    gathered = 2 * max(shape.layer, shape.vocab * shape.hidden) * 2  # two blocks at a time, in 16 bits
    update = {
        "weights": weights,
        "gradients": gradients,
        "optimizer": states,
        "gathered blocks": gathered,
        "activations": _activations(shape, cluster),
        "reference": weights if reference else 0.0,
    }
    server = n * BYTES[cluster.rollout.dtype] / cluster.rollout.tensor_parallel
    card = cluster.gpu_gib * GIB
    share = cluster.rollout.gpu_memory_utilization * card
    kv = max(share - server - CONTEXT_GIB * GIB, 0.0) if card else LEAST_KV_GIB * GIB
    generate = {
        "server's weights": server,
        "KV cache": kv,
        "trainer's state": (weights + states) if resident else 0.0,
    }
    if anchor and cluster.anchor.placement == "colocated":
        least = server + (CONTEXT_GIB + LEAST_KV_GIB) * GIB
        generate["anchor"] = max(cluster.anchor.gpu_memory_utilization * card, least)
    per_token = 2 * shape.layers * shape.kv_width * BYTES[cluster.rollout.dtype] / cluster.rollout.tensor_parallel
    return Estimate(_in_gib(update), _in_gib(generate), int(kv / per_token), float(cluster.gpu_gib))


def _activations(shape: Shape, cluster: ClusterConfig) -> float:
    """Bytes of one micro-batch: the inputs of the layers, one layer's insides (or all, without checkpointing), and the
    logits in 32 bits with their gradient."""
    tokens = cluster.fsdp.max_tokens_per_rank
    inside = tokens * (4 * shape.hidden + 2 * shape.attention_width + 2 * shape.kv_width + 3 * shape.intermediate) * 2
    checkpointed = cluster.fsdp.gradient_checkpointing
    layers = shape.layers * tokens * shape.hidden * 2 + inside if checkpointed else shape.layers * inside
    return float(layers + 2 * tokens * shape.vocab * 4)


def _in_gib(parts: dict[str, float]) -> dict[str, float]:
    gib = {name: FRAGMENTS * size / GIB for name, size in parts.items() if size}
    return gib | {"CUDA, NCCL": CONTEXT_GIB}


def adapters_share(shape: Shape, rank: int) -> float:
    """Share of the parameters that adapters of a rank on all projections add and train; 1 without adapters."""
    if not rank:
        return 1.0
    per_layer = rank * (4 * shape.hidden + 2 * shape.attention_width + 2 * shape.kv_width)
    per_layer += rank * 3 * (shape.hidden + shape.intermediate)
    return shape.layers * per_layer / shape.parameters


def refusal(found: Estimate, longest: int) -> str:
    """Why a run cannot be on such cards, with what helps; "" if it can. `longest`: tokens of one row."""
    if not found.card:
        return ""
    if not found.fits:
        update = sum(found.update.values()) > found.card
        largest = max(found.update, key=lambda part: found.update[part])
        helps = {
            "activations": "cluster.fsdp.max_tokens_per_rank lower",
            "optimizer": "more ranks",
            "weights": "more ranks",
            "gradients": "more ranks",
        }.get(largest, "more ranks")
        fewer = "cluster.rollout.gpu_memory_utilization lower or cluster.fsdp.offload=true"
        return f"{found.peak:.1f} GiB are needed of {found.card:g}; {helps if update else fewer} would help"
    if found.kv_tokens < longest:
        return (
            f"{found.kv_tokens} tokens fit into a server's cache, a row takes {longest};"
            " cluster.rollout.gpu_memory_utilization or cluster.rollout.tensor_parallel higher would help"
        )
    return ""


def lines(found: Estimate) -> list[str]:
    """The estimate for people: a line a phase, and what fits into the cache."""

    def phase(name: str, parts: dict[str, float]) -> str:
        listed = ", ".join(f"{part} {size:.1f}" for part, size in sorted(parts.items(), key=lambda one: -one[1]))
        return f"{name}: {sum(parts.values()):.1f} GiB ({listed})"

    of = f" of {found.card:g} GiB" if found.card else "; cluster.gpu_gib is not given, so nothing is compared"
    return [
        phase("update", found.update),
        phase("generate", found.generate),
        f"largest: {found.peak:.1f} GiB{of}; {found.kv_tokens:,} tokens fit into a server's cache",
    ]
