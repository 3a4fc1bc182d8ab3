"""The roots, the held-out specifications and the demonstrations of a run, checked before anything is started."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from selfplay.algos.ancora import demos as demo_module
from selfplay.algos.ancora import families, grammar, prompts
from selfplay.algos.ancora.config import AncoraConfig, WarmupConfig
from selfplay.algos.ancora.demos import Demo, generate
from selfplay.algos.ancora.grammar import name_key
from selfplay.algos.ancora.prompts import Message, longest_prompt, proposer_messages, solver_messages
from selfplay.algos.runtime import languages
from selfplay.backbones.cache import content_hash
from selfplay.config.errors import ConfigError
from selfplay.config.schema import Config
from selfplay.curriculum.roots import Root, RootFileError, load_roots
from selfplay.sandbox.base import Prover
from selfplay.sandbox.registry import build_prover


@dataclass(frozen=True)
class Demonstrations:
    """Made when called: 20,000 take ten seconds, and a run from a cached state does not need them.

    `key` stands for their content: a file's, or the settings and the source of what generates them.
    """

    key: str
    count: int
    make: Callable[[], list[Demo]]

    def __call__(self) -> list[Demo]:
        return self.make()


@dataclass(frozen=True)
class Data:
    """What a run reads, checked."""

    roots: list[Root]
    suites: dict[str, list[Root]]  # evaluation sets by name; the first is "heldout"
    demonstrations: Demonstrations

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
    forms = {prover.normal_form(root.spec) for root in roots}
    for name, suite in suites.items():
        shared = [root.name for root in suite if prover.normal_form(root.spec) in forms]
        if shared and not algo.eval.roots_allowed:
            key = "algo.eval.heldout" if name == "heldout" else f"algo.eval.more.{name}"
            raise ConfigError(f"{key}: {shared[0]!r} is also a root; held-out specifications must be new")
    forbidden = {name_key(root.spec) for group in (roots, *suites.values()) for root in group}
    asked = {"style": config.backbone.prompts, "language": languages(config.sandbox)}
    return Data(roots, suites, _demonstrations(algo.warmup, forbidden, asked))


def check_lengths(
    data: Data, render: Callable[[Sequence[Message]], list[int]], limit: int, asked: Mapping[str, str]
) -> None:
    """Raise ConfigError where a specification has no room in its prompt.

    `render` gives a conversation's token ids, so this takes the tokenizer and comes after the other checks.
    """
    rooms = [(root, longest_prompt(root.spec, render, **asked)) for root in (*data.roots, *data.heldout)]
    others = [root for name, suite in data.suites.items() if name != "heldout" for root in suite]
    rooms += [(root, len(render(solver_messages(root.spec, **asked)))) for root in others]
    for root, length in rooms:
        if length > limit:
            raise ConfigError(
                f"algo.max_prompt_tokens: {limit} is not allowed; the prompt of the specification {root.name!r} takes"
                f" {length}"
            )


def _demonstrations(warmup: WarmupConfig, forbidden: set[str], asked: dict[str, str]) -> Demonstrations:
    """Those of a file, which is read at once, or generated ones; `asked` is how prompts are worded."""
    if warmup.demos:
        demos = read_demos(Path(warmup.demos), **asked)  # a bad file ends the command before anything starts
        return Demonstrations(content_hash({"demos": [asdict(demo) for demo in demos]}), len(demos), lambda: demos)
    settings: dict[str, Any] = {
        "seed": warmup.seed,
        "n": warmup.n_demos,
        "forbidden": sorted(forbidden),
        "proposer_share": warmup.proposer_share,
        "wrong_share": warmup.wrong_share,
    }
    source = {module.__name__: inspect.getsource(module) for module in (demo_module, families, grammar, prompts)}
    return Demonstrations(content_hash(settings | {"source": source}), warmup.n_demos, partial(generate, **settings))


def refusal(prover: Prover, spec: str) -> str | None:
    """Why the prover does not take `spec` as a specification, or None."""
    judgement = prover.check_spec(spec)
    return None if judgement.verified else judgement.detail or str(judgement.verdict)


def read_demos(path: Path, style: str = "compact", language: str = "Dafny") -> list[Demo]:
    """Demonstrations from a JSONL file: `{"role": "solver", "spec", "response"}` or `{"role": "proposer", "seed",
    "direction", "response"}`.

    Raises:
        ConfigError: unreadable, empty, or a bad line; names file and line.
    """
    demos, asked = [], {"style": style, "language": language}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            if entry["role"] == "solver":
                parents: tuple[str, ...] = (entry["spec"],)
                messages, spec = solver_messages(entry["spec"], **asked), entry["spec"]
            elif entry["role"] == "proposer":
                messages = proposer_messages(entry["seed"], entry["direction"], **asked)
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
