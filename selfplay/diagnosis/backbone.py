"""The model that is to be trained: whether its files are here. Nothing is downloaded or asked of a hub."""

from __future__ import annotations

import json
import os
from pathlib import Path

from selfplay.backbones.config import BackboneConfig
from selfplay.config.schema import Config
from selfplay.diagnosis.findings import GIB, Finding, needs_engine, ok, problem

BACKBONE = "backbone"
SMOLLM2_BYTES = 2 * 135_000_000
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer_config.json")  # one of them is enough
INDICES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


def backbone(config: Config) -> list[Finding]:
    """Whether the backbone can be built or read here."""
    if not needs_engine(config):
        return [ok(BACKBONE, "not needed by this config: no model is trained")]
    if config.backbone.kind == "hf":
        return [_hugging_face(config.backbone)]
    if config.backbone.kind == "smollm2":
        return [_smollm2()]
    return [ok(BACKBONE, f"{config.backbone.name}: built here from a seed")]


def weights_bytes(backbone: BackboneConfig) -> int:
    """Size of the model's weights as files, 16 bits each; 0 for the tiny one, and for one that is not here."""
    if backbone.kind == "smollm2":
        return SMOLLM2_BYTES
    folder = model_folder(backbone.path) if backbone.kind == "hf" else None
    if folder is None:
        return 0
    files = list(folder.glob("*.safetensors")) or list(folder.glob("*.bin"))
    return sum(file.stat().st_size for file in files)


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


def _hugging_face(backbone: BackboneConfig) -> Finding:
    name, folder = backbone.path, model_folder(backbone.path)
    lacking = ["everything"] if folder is None else missing_files(folder)
    if folder is not None and not lacking:
        return ok(BACKBONE, f"{name}: {weights_bytes(backbone) / GIB:.1f} GiB of weights in {folder}")
    if Path(name).expanduser().is_dir():
        fix = f"put {', '.join(lacking)} there, or name another folder: backbone.path=<folder>"
        return problem(BACKBONE, f"{name}: {', '.join(lacking)} not there", fix)
    if named_as_folder(name):
        return problem(BACKBONE, f"{name}: there is no such folder", "backbone.path=<folder or hub name>")
    what = f"{name}: not in this machine's Hugging Face cache" if folder is None else f"{name}: {', '.join(lacking)}"
    what += "" if folder is None else f" not in the cache ({folder})"
    if downloads_allowed():
        return ok(BACKBONE, f"{what}; HF_HUB_OFFLINE=0: the run fetches it (whether it can is not checked)")
    fix = f"hf download {name}; or HF_HUB_OFFLINE=0 in the environment; or backbone=hf backbone.path=<folder>"
    return problem(BACKBONE, f"{what}, and a run downloads nothing unasked", fix)


def _smollm2() -> Finding:
    from selfplay.backbones.smollm2 import PACKAGE, MissingPackageError, find_gguf

    try:
        return ok(BACKBONE, f"smollm2: {find_gguf()}")
    except MissingPackageError as error:
        return problem(BACKBONE, str(error), f"pip install {PACKAGE} gguf")
