"""The model that is to be trained: whether its files are here. Nothing is downloaded or asked of a hub."""

from __future__ import annotations

from pathlib import Path

from selfplay.backbones.config import BackboneConfig
from selfplay.backbones.folders import downloads_allowed, missing_files, model_folder, named_as_folder
from selfplay.config.schema import Config
from selfplay.diagnosis.findings import GIB, Finding, needs_engine, ok, problem

BACKBONE = "backbone"
SMOLLM2_BYTES = 2 * 135_000_000


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
