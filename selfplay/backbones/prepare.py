"""From a configuration to a model folder that the trainer and the inference engine can load."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from selfplay.backbones import smollm2, tiny
from selfplay.backbones.cache import cached
from selfplay.backbones.config import BackboneConfig
from selfplay.backbones.folders import downloads_allowed, missing_files, model_folder, named_as_folder


def prepare(config: BackboneConfig) -> Path | str:
    """The folder of the wanted model, built and cached if need be; a hub name for `kind=hf` is passed through.

    Raises ValueError on a configuration that cannot work and smollm2.MissingPackageError if a package is missing; the
    message is one line.
    """
    config.check()
    return BUILDERS[config.kind](config)


def _tiny(config: BackboneConfig) -> Path:
    corpus = tiny.load_corpus(config.corpus)
    sizes = {
        key: value
        for key, value in asdict(config).items()
        if key not in ("name", "prompts", "kind", "path", "corpus", "trust_remote_code")
    }
    ingredients = {
        "recipe": hashlib.sha256(Path(tiny.__file__).read_bytes()).hexdigest(),  # other code builds another model
        "corpus": hashlib.sha256("\0".join((*corpus.phrases, "\f", *corpus.texts)).encode()).hexdigest(),
        "versions": {name: version(name) for name in ("torch", "transformers", "tokenizers")},
        **sizes,
    }
    return cached("tiny", ingredients, lambda folder: tiny.build(config, folder))


def _smollm2(config: BackboneConfig) -> Path:
    return cached("smollm2-135m", smollm2.ingredients(), lambda folder: smollm2.build(config, folder))


def _hf(config: BackboneConfig) -> Path | str:
    folder = model_folder(config.path)
    if folder is None and named_as_folder(config.path):
        raise ValueError(f"path: {config.path!r} is not allowed; there is no such folder")
    lacking = ["everything"] if folder is None else missing_files(folder)
    if Path(config.path).expanduser().is_dir():
        if lacking:
            raise ValueError(f"path: {config.path!r} is not allowed; the folder lacks {', '.join(lacking)}")
        return Path(config.path).expanduser().resolve()
    if lacking and not downloads_allowed():
        raise ValueError(
            f"path: {config.path!r} is not allowed; it is not in this machine's Hugging Face cache, and nothing is"
            " downloaded unasked (HF_HUB_OFFLINE=0 in the environment asks)"
        )
    return config.path


BUILDERS: dict[str, Callable[[BackboneConfig], Path | str]] = {"tiny": _tiny, "smollm2": _smollm2, "hf": _hf}
