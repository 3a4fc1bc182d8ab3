"""The model that is evaluated: where its weights lie, how it is prompted, and a name that changes with its weights."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from selfplay.backbones.cache import cached, content_hash
from selfplay.backbones.prepare import prepare
from selfplay.backbones.smollm2 import MissingPackageError
from selfplay.config.errors import ConfigError
from selfplay.engine.policy import WEIGHTS
from selfplay.evaluation.config import EvaluateConfig


@dataclass(frozen=True)
class Subject:
    """`path` is a folder or a hub name, "" for an endpoint. `style` is how its prompts are worded, `anchorloop` whether
    it was trained on AnchorLoop's."""

    name: str  # for people
    path: str
    identity: str  # of the weights
    style: str
    anchorloop: bool = False


def subject_of(config: EvaluateConfig) -> Subject:
    """The model that the settings name.

    Raises:
        ConfigError: there is none, or its weights cannot be read.
    """
    if config.remote:
        identity = f"{config.endpoint.base_url}#{config.endpoint.model}"
        return Subject(config.endpoint.model, "", identity, "full")
    if not config.model:
        path = _prepared(config)
        name = config.backbone.path or config.backbone.name
        return Subject(Path(name).name, path, weights_identity(path), config.backbone.prompts)
    given = Path(config.model).expanduser()
    if not given.is_dir():
        hub = "a model of the hub is backbone=hf backbone.path=its/name"
        raise ConfigError(f"model: {config.model!r} is not allowed; there is no such folder; {hub}")
    run = next((folder for folder in (given, *given.parents) if (folder / "run.json").is_file()), None)
    try:
        settings = dict(yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))) if run else {}
    except (OSError, ValueError, TypeError, yaml.YAMLError) as error:
        raise ConfigError(f"{run}/config.yaml: cannot be read: {' '.join(str(error).split())[:200]}") from error
    style = str((settings.get("backbone") or {}).get("prompts", config.backbone.prompts))
    algo = str((settings.get("algo") or {}).get("name", ""))
    path = str(model_folder(given.absolute()))
    name = given.name if run is None else run.name if given == run else f"{run.name}-{given.name}"
    return Subject(name, path, weights_identity(path), style, algo in ("anchorloop", "agent0"))


def _prepared(config: EvaluateConfig) -> str:
    try:
        return str(prepare(config.backbone))
    except (ValueError, MissingPackageError) as error:
        raise ConfigError(f"backbone.{error}") from error


def model_folder(given: Path) -> Path:
    """A folder that a server loads: `given`, what a run left of its policy, or a checkpoint's shards joined in the
    cache.

    Raises:
        ConfigError: there are no weights in it.
    """
    try:
        if (given / "config.json").is_file():
            return given
        if (given / "policies" / "final" / "config.json").is_file():
            return given / "policies" / "final"
        executors = sorted((given / "policies").glob("executor_*/" + WEIGHTS))
        if executors:
            return _with_tokenizer(executors[-1].parent)
        if (given / WEIGHTS).is_file():
            return _with_tokenizer(given)
        steps = sorted((given / "checkpoints").glob("step_*/COMPLETE")) or sorted(given.glob("COMPLETE"))
        if steps:
            return _joined(steps[-1].parent / "actor")
    except (OSError, ValueError, KeyError) as error:
        said = " ".join(str(error).split())[:200]
        raise ConfigError(f"model: {given}: {type(error).__name__}: {said}") from error
    raise ConfigError(
        f"model: {str(given)!r} is not allowed; it holds neither a model (config.json) nor a run's checkpoint"
    )


def _with_tokenizer(weights: Path) -> Path:
    """AnchorLoop's exported weights with the configuration and tokenizer of the state beside them."""

    def build(folder: Path) -> None:
        for file in (weights / "state" / "huggingface").iterdir():
            if file.is_file():
                shutil.copyfile(file, folder / file.name)
        shutil.copyfile(weights / WEIGHTS, folder / WEIGHTS)

    return cached("policy", {"weights": _digest(weights / WEIGHTS)}, build)


def _joined(actor: Path) -> Path:
    from selfplay.engine.merged_weights import merge

    shards = sorted(actor.glob("model_world_size_*.pt"))
    return cached("policy", {"shards": [_digest(path) for path in shards]}, lambda folder: merge(actor, folder))


def weights_identity(path: str) -> str:
    """A name of the weights: their content's where they lie here, else the hub's name."""
    kinds = (".safetensors", ".bin", ".json", ".jinja", ".model", ".txt")  # with the tokenizer and its template
    files = sorted(file for file in Path(path).iterdir() if file.suffix in kinds) if Path(path).is_dir() else []
    return content_hash({"files": [_digest(file) for file in files]}) if files else path


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tokenizer_of(subject: Subject, trust_remote_code: bool) -> Any:
    """The subject's tokenizer. Raises ConfigError where it cannot be loaded."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(subject.path, trust_remote_code=trust_remote_code)
    except Exception as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise ConfigError(f"model: {subject.path}: no tokenizer: {said}") from error
