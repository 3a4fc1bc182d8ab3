"""A folder that any server loads, made from the checkpoint of a run: the ranks' shards joined."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from selfplay.engine.policy import WEIGHTS
from selfplay.engine.shards import joined, read, shards


def merge(actor: Path, folder: Path) -> None:
    """Write the model of `actor`, the folder of that name in a checkpoint, into `folder`.

    Raises:
        ValueError: shards are missing, hold adapters, or are laid out in a way that is not known here.
    """
    from safetensors.torch import save_file

    states = [read(path, lazily=True) for path in shards(actor)]
    whole = {name: joined(name, [state[name] for state in states]) for name in states[0]}
    if any("lora_" in name for name in whole):
        raise ValueError(f"{actor}: it holds adapters beside the weights; use the run's policies/final")
    folder.mkdir(parents=True, exist_ok=True)
    for path in (actor / "huggingface").iterdir():
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if config.get("tie_word_embeddings"):
        whole.pop("lm_head.weight", None)
    save_file(whole, folder / WEIGHTS, metadata={"format": "pt"})
