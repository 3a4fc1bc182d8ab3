"""EvalPlus's MBPP+ and HumanEval+: a function, inputs for it, and a reference solution that says what is right."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selfplay.benchmarks.code_task import BadData


@dataclass(frozen=True)
class CallProblem:
    """Inputs without outputs: those are what `reference` returns."""

    task_id: str
    prompt: str
    function: str
    reference: str
    inputs: tuple[tuple[Any, ...], ...]


def read(path: Path | str) -> Iterator[CallProblem]:
    """The problems of a file, plain or gzipped. Raises BadData, naming file and line."""
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield problem_of(json.loads(line))
            except (ValueError, TypeError, KeyError) as error:
                what = f"no field {error}" if isinstance(error, KeyError) else error
                raise BadData(f"{path}:{number}: {what}") from error


def problem_of(record: Mapping[str, Any]) -> CallProblem:
    """A problem. HumanEval's solution continues its prompt, MBPP's stands alone."""
    plus = record["plus_input"]
    plus = json.loads(plus) if isinstance(plus, str) else plus
    solution, prompt = str(record["canonical_solution"]), str(record["prompt"])
    alone = f"def {record['entry_point']}" in solution
    inputs = [*record["base_input"], *(plus or [])]
    return CallProblem(
        task_id=str(record["task_id"]),
        prompt=prompt,
        function=str(record["entry_point"]),
        reference=solution if alone else prompt + solution,
        inputs=tuple(tuple(arguments) for arguments in inputs),
    )
