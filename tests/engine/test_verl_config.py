"""Our settings as verl's: what the presets for real sizes become passes verl's own checks. Nothing is downloaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from selfplay.config.errors import ConfigError
from selfplay.config.load import load_config
from selfplay.engine.config import ClusterConfig
from selfplay.engine.environment import variables

PRESETS = {
    "anchorloop on Qwen3": ["experiment=anchorloop_paper"],
    "anchorloop on MiMo": ["experiment=anchorloop_paper", "backbone=mimo_7b_base"],
    "ancora": ["experiment=ancora_paper"],
    "laptop": ["algo=ancora"],
}
# In a process of its own: verl reads its platform from the environment when it is first imported.
SCRIPT = """
import json, sys
from pathlib import Path
from verl.utils.config import omega_conf_to_dataclass, validate_config
from selfplay.config.load import load_config
from selfplay.engine.policy import PolicySpec
from selfplay.engine.verl_config import verl_config

for name, overrides in json.loads(sys.argv[1]).items():
    config = load_config(overrides)
    spec = PolicySpec(
        model_path=config.backbone.path or "some/model",
        trust_remote_code=config.backbone.trust_remote_code,
        max_prompt=config.algo.max_prompt_tokens,
        max_response=config.algo.max_response(),
        kl_coef=getattr(getattr(config.algo, "optim", None), "kl_coef", 0.0),
        lora_rank=getattr(getattr(config.algo, "rl", None), "lora_rank", 0),
    )
    verl = verl_config(spec, config.cluster, Path(sys.argv[2]) / "episodes.yaml", seed=0)
    validate_config(verl, use_reference_policy=spec.kl_coef > 0, use_critic=False)
    worker = verl.actor_rollout_ref
    for part in (worker.actor, worker.rollout):
        omega_conf_to_dataclass(part)
    print("row", json.dumps([name, worker.model.path, worker.model.trust_remote_code, worker.rollout.max_model_len]))
"""


SYSTEMS = ("ancora", "anchorloop", "benchevolver")
BACKBONES = ("qwen3_4b_base", "mimo_7b_base", "qwen25_coder_3b_instruct")
CLUSTERS = ("a100x2_40g", "a100x8_80g", "a100x8x4", "gpu")
OFFERED = {
    f"{system} {backbone} {cluster}": [f"experiment={system}_paper", f"backbone={backbone}", f"cluster={cluster}"]
    for system in SYSTEMS
    for backbone in BACKBONES
    for cluster in CLUSTERS
}
# Too large for two cards of 40 GiB; all else that is offered can start.
REFUSED = {name for name in OFFERED if name.endswith("a100x2_40g")} - {"ancora qwen25_coder_3b_instruct a100x2_40g"}


def checked_by_verl(presets: dict[str, list[str]], folder: Path) -> list[list[Any]]:
    environment = os.environ | variables(ClusterConfig(), "test")
    command = [sys.executable, "-c", SCRIPT, json.dumps(presets), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line[4:]) for line in done.stdout.splitlines() if line.startswith("row ")]


@pytest.mark.slow
def test_every_offered_combination_passes_or_is_refused_with_a_reason(tmp_path: Path) -> None:
    for name in REFUSED:
        with pytest.raises(ConfigError, match=r"GiB are needed of 40; |it must be at least 5120"):
            load_config(OFFERED[name])
    offered = {name: overrides for name, overrides in OFFERED.items() if name not in REFUSED}
    assert [row[0] for row in checked_by_verl(offered, tmp_path)] == list(offered)


def test_presets_pass_verl_s_own_checks(tmp_path: Path) -> None:
    assert checked_by_verl(PRESETS, tmp_path) == [
        ["anchorloop on Qwen3", "Qwen/Qwen3-4B-Base", False, 1024 + 4096],
        ["anchorloop on MiMo", "XiaomiMiMo/MiMo-7B-Base", True, 1024 + 4096],
        ["ancora", "Qwen/Qwen2.5-Coder-3B-Instruct", False, 2048 + 2048],
        ["laptop", "some/model", False, 256 + 96],
    ]
