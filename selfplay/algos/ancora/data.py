"""The roots, the held-out specifications and the demonstrations of a run, checked before anything is started."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path

from selfplay.algos.ancora.config import AncoraConfig
from selfplay.algos.ancora.demos import Demo, generate
from selfplay.algos.ancora.grammar import name_key
from selfplay.algos.ancora.prompts import proposer_messages, solver_messages
from selfplay.config.errors import ConfigError
from selfplay.config.schema import Config
from selfplay.curriculum.roots import Root, RootFileError, load_roots
from selfplay.sandbox.base import Prover
from selfplay.sandbox.registry import build_prover


@dataclass(frozen=True)
class Data:
    """`demonstrations` is a function, since a resumed run does not need them."""

    roots: list[Root]
    suites: dict[str, list[Root]]  # evaluation sets by name; the first is "heldout"
    demonstrations: Callable[[], list[Demo]]

    @property
    def heldout(self) -> list[Root]:
        return self.suites["heldout"]


def load_data(config: Config) -> Data:
    """Read and check the files that the settings name.

    Raises:
        ConfigError: a file cannot be used, with file and line; or a held-out specification is also a root.
    """
    algo: AncoraConfig = config.algo
    try:
        prover = build_prover(config.sandbox)
    except (ValueError, FileNotFoundError) as error:
        raise ConfigError(f"sandbox: {error}") from error
    try:
        roots = load_roots(_path(algo.roots, "train.jsonl"), partial(refusal, prover))
        files = {"heldout": _path(algo.eval.heldout, "heldout.jsonl")} | {n: Path(f) for n, f in algo.eval.more.items()}
        suites = {name: load_roots(path, partial(refusal, prover)) for name, path in files.items()}
    except RootFileError as error:
        raise ConfigError(str(error)) from error
    keys = {name_key(root.spec) for root in roots}
    for name, suite in suites.items():
        shared = [root.name for root in suite if name_key(root.spec) in keys]
        if shared and not algo.eval.roots_allowed:
            key = "algo.eval.heldout" if name == "heldout" else f"algo.eval.more.{name}"
            raise ConfigError(f"{key}: {shared[0]!r} is also a root; held-out specifications must be new")
    forbidden = keys | {name_key(root.spec) for suite in suites.values() for root in suite}
    warmup = algo.warmup
    if warmup.demos:
        demos = partial(read_demos, Path(warmup.demos), config.backbone.prompts)
        demos()  # a bad file ends the command before anything starts
    else:
        shares = {"proposer_share": warmup.proposer_share, "wrong_share": warmup.wrong_share}
        demos = partial(generate, warmup.seed, warmup.n_demos, forbidden, **shares)
    return Data(roots, suites, demos)


def refusal(prover: Prover, spec: str) -> str | None:
    """Why the prover does not take `spec` as a specification, or None."""
    judgement = prover.check_spec(spec)
    return None if judgement.verified else judgement.detail or str(judgement.verdict)


def read_demos(path: Path, style: str) -> list[Demo]:
    """Demonstrations from a JSONL file: `{"role": "solver", "spec", "response"}` or `{"role": "proposer", "seed",
    "direction", "response"}`.

    Raises:
        ConfigError: unreadable, empty, or a bad line; names file and line.
    """
    demos = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            if entry["role"] == "solver":
                parents: tuple[str, ...] = (entry["spec"],)
                messages, spec = solver_messages(entry["spec"], style=style), entry["spec"]
            elif entry["role"] == "proposer":
                messages = proposer_messages(entry["seed"], entry["direction"], style=style)
                parents, spec = (entry["seed"],), ""
            else:
                raise ValueError(f"role: {entry['role']!r} is not allowed; it is proposer or solver")
            demos.append(Demo(entry["role"], messages, str(entry["response"]), parents, spec, ""))
        except KeyError as error:
            raise ConfigError(f"{path}:{number}: missing field {error}") from error
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{path}:{number}: {error}") from error
    if not demos:
        raise ConfigError(f"{path}: holds no demonstration")
    return demos


def _path(given: str, shipped: str) -> Path:
    return Path(given) if given else Path(str(files("selfplay.algos.ancora") / "roots" / shipped))
