"""What a run reads: seeds, the held-out tasks, and the micro-domain's demonstrations."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from selfplay.algos.benchevolver import compact, micro
from selfplay.algos.benchevolver.config import BenchEvolverConfig
from selfplay.algos.benchevolver.micro import Demo
from selfplay.backbones.cache import content_hash
from selfplay.benchmarks import livecodebench, scicode
from selfplay.benchmarks.code_task import BadData, CodeTask
from selfplay.config.errors import ConfigError


@dataclass(frozen=True)
class EvolverData:
    """`demonstrations` are made when called; `key` stands for their content."""

    seeds: list[CodeTask]
    heldout: list[CodeTask]
    demonstrations: Callable[[], list[Demo]]
    key: str


def load_data(algo: BenchEvolverConfig) -> EvolverData:
    """Read and check.

    Raises:
        ConfigError: a file cannot be used; names file and line.
    """
    seeds = read_tasks(algo.seeds) if algo.seeds else micro.seeds()
    for task in seeds:
        if not task.reference.strip():
            raise ConfigError(f"{algo.seeds}: {task.task_id}: no reference_solution; only solved problems are evolved")
    heldout = read_tasks(algo.eval.heldout) if algo.eval.heldout else micro.heldout()
    heldout = heldout[: algo.eval.tasks or None]
    warmup = algo.warmup
    settings: dict[str, Any] = {"seed": warmup.seed, "n": warmup.n_demos, "slip_share": warmup.slip_share}
    statements = sorted(task.statement for task in heldout)
    make = partial(micro.demonstrations, **settings, forbidden=frozenset(statements))
    source = {module.__name__: inspect.getsource(module) for module in (micro, compact)}
    return EvolverData(seeds, heldout, make, content_hash({**settings, "source": source, "heldout": statements}))


def read_tasks(path: str) -> list[CodeTask]:
    """The problems of a file in LiveCodeBench's or SciCode's format, no two with one name.

    Raises ConfigError, naming file and line.
    """
    try:
        with Path(path).open(encoding="utf-8") as lines:
            reader = scicode.read if '"sub_steps"' in lines.readline() else livecodebench.read
        tasks = list(reader(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    except BadData as error:
        raise ConfigError(str(error)) from error
    if not tasks:
        raise ConfigError(f"{path}: holds no problem")
    names: set[str] = set()
    for task in tasks:
        if task.task_id in names:
            raise ConfigError(f"{path}: {task.task_id!r} occurs twice")
        names.add(task.task_id)
    return tasks
