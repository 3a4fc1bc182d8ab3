"""The estimate of a GPU's memory: sizes worked by hand, what makes it larger, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from selfplay.backbones.config import BackboneConfig
from selfplay.config.errors import ConfigError
from selfplay.config.load import load_config
from selfplay.config.plan import describe
from selfplay.diagnosis.gpus import gpus_needed
from selfplay.engine.config import AnchorConfig, ClusterConfig, FsdpConfig, RolloutConfig
from selfplay.engine.memory import (
    CONTEXT_GIB,
    FRAGMENTS,
    GIB,
    KNOWN,
    Shape,
    adapters_share,
    estimate,
    refusal,
    shape_of,
)

SHAPE = Shape(vocab=1000, hidden=100, intermediate=300, layers=2, attention_width=100, kv_width=50)
CLUSTER = ClusterConfig(
    device="cuda",
    ranks_per_node=4,
    gpu_gib=80,
    rollout=RolloutConfig(dtype="bfloat16"),
    fsdp=FsdpConfig(gradient_checkpointing=True, max_tokens_per_rank=1000),
)


@pytest.mark.parametrize(
    ("name", "billions"),  # the models' cards
    [("Qwen/Qwen3-4B-Base", 4.0), ("XiaomiMiMo/MiMo-7B-Base", 7.6), ("Qwen/Qwen2.5-Coder-3B-Instruct", 3.09)],
)
def test_known_shapes_have_the_published_number_of_parameters(name: str, billions: float) -> None:
    assert KNOWN[name].parameters / 1e9 == pytest.approx(billions, rel=0.01)


def test_tiny_is_counted_as_it_is_built() -> None:
    shape = shape_of(BackboneConfig())
    assert shape is not None
    assert shape.parameters == pytest.approx(1_102_464, rel=0.01)  # biases are left out


def test_a_shape_is_read_from_a_folder(tmp_path: Path) -> None:
    sizes = {"vocab_size": 10, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1}
    (tmp_path / "config.json").write_text(json.dumps({**sizes, "num_attention_heads": 2, "num_key_value_heads": 1}))
    assert shape_of(BackboneConfig(kind="hf", path=str(tmp_path))) == Shape(10, 8, 16, 1, 8, 4)
    (tmp_path / "config.json").write_text("{}")
    assert shape_of(BackboneConfig(kind="hf", path=str(tmp_path))) is None
    assert shape_of(BackboneConfig(kind="hf", path="nobody/knows")) is None


def test_states_by_hand() -> None:
    # attention 100 x (2 x 100 + 2 x 50) = 30,000; MLP 3 x 100 x 300 = 90,000; norms 200; two embeddings 200,000
    assert SHAPE.parameters == 200_000 + 2 * (30_000 + 90_000 + 200)
    found = estimate(SHAPE, CLUSTER)
    quarter = FRAGMENTS * 440_400 / 4 / GIB
    assert found.update["weights"] == pytest.approx(4 * quarter)
    assert found.update["gradients"] == pytest.approx(4 * quarter)
    assert found.update["optimizer"] == pytest.approx(8 * quarter)
    inside = 1000 * (400 + 200 + 100 + 900) * 2
    activations = 2 * 1000 * 100 * 2 + inside + 2 * 1000 * 1000 * 4
    assert found.update["activations"] == pytest.approx(FRAGMENTS * activations / GIB)
    assert found.generate["server's weights"] == pytest.approx(FRAGMENTS * 2 * 440_400 / GIB)
    cache = 0.6 * 80 * GIB - 2 * 440_400 - CONTEXT_GIB * GIB
    assert found.kv_tokens == int(cache / (2 * 2 * 50 * 2))


def test_what_makes_it_larger_and_smaller() -> None:
    base = estimate(SHAPE, CLUSTER)
    longer = replace(CLUSTER, fsdp=replace(CLUSTER.fsdp, max_tokens_per_rank=2000))
    whole = replace(CLUSTER, fsdp=replace(CLUSTER.fsdp, gradient_checkpointing=False))
    away = replace(CLUSTER, fsdp=replace(CLUSTER.fsdp, offload=True))
    assert sum(estimate(SHAPE, longer).update.values()) > sum(base.update.values())
    assert sum(estimate(SHAPE, whole).update.values()) > sum(base.update.values())
    assert sum(estimate(SHAPE, away).generate.values()) < sum(base.generate.values())
    assert estimate(SHAPE, CLUSTER, reference=True).update["reference"] == base.update["weights"]
    share = adapters_share(SHAPE, 4)
    assert 0 < share < 1
    assert estimate(SHAPE, CLUSTER, trained_share=share).update["optimizer"] < base.update["optimizer"]


def test_a_frozen_model_on_a_shared_card_counts_and_one_on_its_own_does_not() -> None:
    shared = replace(CLUSTER, anchor=AnchorConfig(placement="colocated", gpu_memory_utilization=0.25))
    assert estimate(SHAPE, shared, anchor=True).generate["anchor"] == pytest.approx(FRAGMENTS * 0.25 * 80)
    assert "anchor" not in estimate(SHAPE, CLUSTER, anchor=True).generate
    assert "anchor" not in estimate(SHAPE, shared).generate
    both = ["experiment=anchorloop_paper", "cluster.anchor.placement=colocated"]
    with pytest.raises(ConfigError, match=r"GiB are needed of 80; .*gpu_memory_utilization lower or .*offload=true"):
        load_config([*both, "cluster.anchor.gpu_memory_utilization=0.5"])
    config = load_config([*both, "cluster.ranks_per_node=8", "cluster.rollout.gpu_memory_utilization=0.5"])
    assert gpus_needed(config) == 8
    assert "1 x vLLM cuda, on 1 GPU of the first ranks (0.25 of the memory)" in describe(config)
    dedicated = load_config(["experiment=anchorloop_paper"])
    assert gpus_needed(dedicated) == 8  # seven ranks and one
    assert "1 x vLLM cuda, 1 GPU of its own" in describe(dedicated)


def test_a_card_of_unknown_size_refuses_nothing() -> None:
    assert refusal(estimate(KNOWN["XiaomiMiMo/MiMo-7B-Base"], replace(CLUSTER, gpu_gib=0)), 5000) == ""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["cluster=custom"], "GiB are needed of 24; more ranks would help"),
        (["cluster=a100x2_40g", "backbone=mimo_7b_base"], "'a100x2_40g' is not allowed with backbone=mimo_7b_base"),
        (["cluster=custom", "cluster.gpu_gib=60"], "cluster.rollout.gpu_memory_utilization"),
    ],
)
def test_what_cannot_fit_is_refused_with_a_number_and_a_way_out(given: list[str], said: str) -> None:
    overrides = ["experiment=ancora_paper", *given]
    if "cluster.gpu_gib=60" in given:  # the update fits, a cache of nothing does not
        overrides += ["cluster.rollout.gpu_memory_utilization=0.05"]
    with pytest.raises(ConfigError) as caught:
        load_config(overrides)
    assert said in str(caught.value)


def test_dry_run_prints_it() -> None:
    shown = describe(load_config(["experiment=anchorloop_paper"]))
    assert "# memory of one GPU, estimated" in shown
    assert "of 80 GiB" in shown
    assert "# memory" not in describe(load_config([]))
