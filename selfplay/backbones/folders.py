"""A model's folder: where it is, and whether it is whole. Nothing is downloaded or asked of a hub."""

from __future__ import annotations

import json
import os
from pathlib import Path

TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer_config.json")  # one of them is enough
INDICES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


def model_folder(path: str) -> Path | None:
    """The folder of a model: itself, or where the cache of the hub has the newest snapshot; None if neither is here."""
    folder = Path(path).expanduser()
    if folder.is_dir():
        return folder.resolve()
    if named_as_folder(path):
        return None
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(path, "config.json")
    return Path(found).parent if isinstance(found, str) else None


def named_as_folder(path: str) -> bool:
    """Whether a path can be no name of the hub."""
    return Path(path).expanduser().is_absolute() or path.startswith((".", "~"))


def missing_files(folder: Path) -> list[str]:
    """What a model's folder lacks: its settings, weights, or tokenizer."""
    missing = [] if (folder / "config.json").is_file() else ["config.json"]
    if not any((folder / name).is_file() for name in TOKENIZERS):
        missing.append("a tokenizer")
    index = next((folder / name for name in INDICES if (folder / name).is_file()), None)
    if index is not None:
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        return missing + sorted(shard for shard in shards if not (folder / shard).is_file())
    if not any(file.is_file() for pattern in ("*.safetensors", "*.bin") for file in folder.glob(pattern)):
        missing.append("weights")
    return missing


def downloads_allowed() -> bool:
    """Whether a run started from here would fetch a model: only if HF_HUB_OFFLINE says so."""
    said = os.environ.get("HF_HUB_OFFLINE", "1") or os.environ.get("TRANSFORMERS_OFFLINE", "1")
    return said.upper() not in ("1", "ON", "YES", "TRUE")
