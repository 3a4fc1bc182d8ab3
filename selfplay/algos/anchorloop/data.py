"""What a run reads: the held-out tasks, and the micro-domain's demonstrations."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from selfplay.algos.anchorloop import micro, prompts
from selfplay.algos.anchorloop.config import AnchorLoopConfig, LoopWarmup
from selfplay.algos.anchorloop.micro import Demo
from selfplay.backbones.cache import content_hash
from selfplay.config.errors import ConfigError


@dataclass(frozen=True)
class HeldOut:
    """A task with its known answer."""

    question: str
    answer: str
    kind: str = ""


@dataclass(frozen=True)
class LoopData:
    """`demonstrations` are made when called; `key` stands for their content."""

    heldout: list[HeldOut]
    demonstrations: Callable[[], list[Demo]]
    key: str


def load_data(algo: AnchorLoopConfig) -> LoopData:
    """Read and check.

    Raises:
        ConfigError: the held-out file cannot be used; names file and line.
    """
    if algo.eval.heldout:
        heldout = read_heldout(Path(algo.eval.heldout))
    else:
        heldout = [HeldOut(p.question, str(p.answer), p.kind) for p in micro.heldout()]
    if algo.eval.tasks:
        heldout = heldout[: algo.eval.tasks]
    settings = _settings(algo.warmup)
    source = {module.__name__: inspect.getsource(module) for module in (micro, prompts)}
    make = partial(micro.demonstrations, **settings, forbidden={task.question for task in heldout})
    return LoopData(
        heldout, make, content_hash({**settings, "source": source, "heldout": [h.question for h in heldout]})
    )


def _settings(warmup: LoopWarmup) -> dict[str, Any]:
    return {
        "seed": warmup.seed,
        "n": warmup.n_demos,
        "curriculum_share": warmup.curriculum_share,
        "wrong_share": warmup.wrong_share,
    }


def read_heldout(path: Path) -> list[HeldOut]:
    """Tasks from a JSONL file of `{"question", "answer"}`, the answer a number or text.

    Raises:
        ConfigError: unreadable, empty, or a bad line; names file and line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    tasks = []
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            question, answer = entry["question"], str(entry["answer"]).strip()
            if not isinstance(question, str) or not question.strip() or not answer:
                raise ValueError("question and answer must not be empty")
        except KeyError as error:
            raise ConfigError(f"{path}:{number}: missing field {error}") from error
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{path}:{number}: {error}") from error
        tasks.append(HeldOut(question, answer, str(entry.get("kind", ""))))
    if not tasks:
        raise ConfigError(f"{path}: holds no task")
    return tasks
