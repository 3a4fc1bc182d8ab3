"""From overrides to a checked `Config`, or to a ConfigError. Imports Hydra and nothing heavier."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException, ValidationError

import selfplay
from selfplay.config.errors import ConfigError, one_line, unknown_key, unknown_option, with_nearest
from selfplay.config.schema import GROUPS, RESUME_WORDS, Config, register
from selfplay.config.tables import resolved
from selfplay.config.validate import problems
from selfplay.runs.files import RunDirError
from selfplay.runs.resume import combine, saved_overrides

_WANTED = {int: "a whole number", float: "a number", bool: "true or false", str: "text", list: "a list"}

_PASSWORD = re.compile(r"://[^/\s]*@")
_SECRET = re.compile(r"(?:^[^=]*[._]|^[+~]*|[{,]\s*(?:\w*_)?)(?:key|token|password|secret)\s*(?:=|:)", re.IGNORECASE)

OPEN_SECTIONS = ("algo.eval.more.", "algo.endpoints.", "data.revision.")  # their names are the user's own


@dataclass(frozen=True)
class Root:
    """What a command composes: a file of `conf/`, its dataclass, the groups it has, and what is wrong with a value."""

    file: str
    kind: type
    groups: Sequence[str]
    problems: Callable[[Any], list[str]]


TRAIN = Root("config", Config, GROUPS, problems)


def conf_dir() -> Path:
    """The folder of the YAML files: inside an installed package, or beside it in a clone.

    Raises:
        FileNotFoundError: neither is there, so the installation is broken.
    """
    package = Path(selfplay.__file__).resolve().parent
    for folder in (package / "conf", package.parent / "conf"):
        if (folder / "config.yaml").is_file():
            return folder
    raise FileNotFoundError(f"no conf/config.yaml in or beside {package}")


def group_options(group: str) -> list[str]:
    """The members of a group, as its files name them."""
    return sorted(path.stem for path in (conf_dir() / group).glob("*.yaml"))


def load_config(overrides: Sequence[str]) -> Config:
    """Compose and check the settings of one run.

    Raises:
        ConfigError: the first problem found, as one line.
    """
    config = load_root(resolved(parse(overrides), overrides, conf_dir() / "experiment"), TRAIN)
    assert isinstance(config, Config)
    return config


def load_root(overrides: Sequence[str], root: Root) -> Any:
    """Compose and check the settings of a command: an object of `root.kind`.

    Raises:
        ConfigError: the first problem found, as one line.
    """
    parsed = parse(overrides)
    for override in parsed:
        _check_form(override, root)
    composed = _compose(parsed, root)
    try:
        config = OmegaConf.to_object(composed)
    except MissingMandatoryValue as error:
        raise ConfigError(f"{error.full_key}: no value is given") from error
    except (OmegaConfBaseException, ValueError, TypeError) as error:
        raise ConfigError(_message(error)) from error
    assert isinstance(config, root.kind)
    found = root.problems(config)
    if found:
        raise ConfigError(with_nearest(one_line(found[0])))
    return config


def parse(overrides: Sequence[str]) -> list[Override]:
    """Hydra's overrides of a command line.

    Raises:
        ConfigError: one of them is not of the form key=value, or holds a secret.
    """
    parser = OverridesParser.create()
    parsed = []
    for text in overrides:
        _refuse_secret(text)
        try:
            parsed.extend(parser.parse_overrides([text]))
        except OverrideParseException as error:
            raise ConfigError(
                f"{text}: not an override; write key=value, with quotes around a value that holds , = or blanks"
            ) from error
    return parsed


def _refuse_secret(text: str) -> None:
    """Settings are written to the run's files and repeated in messages, so a secret is refused before it is either."""
    key = text.partition("=")[0]
    if _PASSWORD.search(text):
        raise ConfigError(f"{key}: no name and password in an address, please; settings are kept in files")
    if _SECRET.search(text):
        raise ConfigError(f"{key}: no secrets among the settings, please; key_variable names the variable with a key")


def _check_form(override: Override, root: Root) -> None:
    """What Hydra would let pass, or say too late: sweeps, added and removed settings, unknown members of groups."""
    key, given = override.key_or_group, _given(override)
    if override.is_sweep_override():
        more = "add --multirun, or quote it if it is one value" if root is TRAIN else "quote it if it is one value"
        raise ConfigError(f"{key}: {given!r} is a sweep over several values; {more}")
    if _is_open(key) and not override.is_delete():
        return
    if override.is_add() or override.is_force_add() or override.is_delete():
        raise ConfigError(f"{override.input_line}: settings are neither added nor removed here; write {key}=value")
    if key in root.groups and override.package is None:
        optional = key == "experiment" and override.value() is None
        if not optional and override.value() not in group_options(key):
            raise unknown_option(key, given, group_options(key))


def _is_open(key: str) -> bool:
    """Whether the key lies in a section whose names are the user's own."""
    return key.startswith(OPEN_SECTIONS)


def _line(override: Override) -> str:
    """The override as Hydra wants it: a name of the user's own has to be added, however it was written."""
    key = override.key_or_group
    return f"++{key}={_given(override)}" if _is_open(key) else str(override.input_line)


def with_saved_overrides(overrides: Sequence[str]) -> list[str]:
    """With `resume=<path>`, the overrides of that run below the given ones; otherwise the given ones.

    Raises:
        ConfigError: there is no run at the path.
    """
    for override in parse(overrides):
        if override.key_or_group == "resume" and override.value() not in (*RESUME_WORDS, None, ""):
            try:
                return combine(saved_overrides(Path(str(override.value()))), overrides)
            except RunDirError as error:
                raise ConfigError(str(error)) from error
    return list(overrides)


def to_yaml(config: Config) -> str:
    """The resolved settings, as `config.yaml` holds them."""
    return OmegaConf.to_yaml(OmegaConf.structured(config), resolve=True)


def _compose(parsed: Sequence[Override], root: Root) -> DictConfig:
    register()
    overrides = [_line(override) for override in parsed]
    try:
        with initialize_config_dir(str(conf_dir()), version_base="1.3"):
            return compose(root.file, overrides=overrides)
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise _explain(error, parsed, root) from error


def _explain(error: Exception, parsed: Sequence[Override], root: Root) -> ConfigError:
    """The one line for a composition that failed: goes through the overrides one by one, then takes Hydra's word."""
    known = _known_settings(parsed, root)
    for override in parsed:
        key = override.key_or_group
        if not known or key in root.groups or key.split(".")[0] == "hydra" or _is_open(key):
            continue
        if any(name.startswith(key + ".") for name in known):
            return ConfigError(f"{key}: {_given(override)!r} is not allowed; it is a section with settings of its own")
        if key not in known:
            return unknown_key(f"{key}={_given(override)}", known)
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else error
    if isinstance(cause, ValidationError) and cause.full_key:
        key = str(cause.full_key)
        value = next((_given(override) for override in reversed(parsed) if override.key_or_group == key), None)
        wanted = _WANTED.get(type(known.get(key)))
        if value is not None and wanted is not None:
            return ConfigError(f"{key}: {value!r} is not allowed; it is {wanted}")
        return ConfigError(_message(cause))
    return ConfigError(_message(error))


def _given(override: Override) -> str:
    """The value as it was typed."""
    return str(override.input_line).partition("=")[2]


def _known_settings(parsed: Sequence[Override], root: Root) -> dict[str, Any]:
    """All settings that the chosen members have, with their defaults: composed again from the choices alone."""
    choices = [override for override in parsed if override.key_or_group in root.groups]
    try:
        with initialize_config_dir(str(conf_dir()), version_base="1.3"):
            composed = compose(root.file, overrides=[str(override.input_line) for override in choices])
        return dict(leaves(OmegaConf.to_object(composed)))
    except (HydraException, OmegaConfBaseException):
        return {}


def leaves(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Full key and value of a dataclass's plain fields: `seed`, `algo.optim.lr`, ..."""
    for item in fields(config):
        value = getattr(config, item.name)
        if is_dataclass(value):
            yield from leaves(value, f"{prefix}{item.name}.")
        else:
            yield f"{prefix}{item.name}", value


def _message(error: Exception) -> str:
    """The first line of an exception's text, after the setting it is about where that is known."""
    key = getattr(error, "full_key", None)
    text = one_line(str(error).splitlines()[0]) if str(error) else type(error).__name__
    return f"{key}: {text}" if key else text
