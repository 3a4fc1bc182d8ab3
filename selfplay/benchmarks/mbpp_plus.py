"""EvalPlus's MBPP+ and HumanEval+: a function, inputs for it, and a reference solution that says what is right."""

from __future__ import annotations

import ast
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
    examples = _examples(str(record.get("assertion") or ""), str(record["entry_point"]))
    inputs = [[*map(_shaped, arguments, examples)] if len(arguments) == len(examples) else arguments
              for arguments in (*record["base_input"], *(plus or []))]  # fmt: skip
    return CallProblem(
        task_id=str(record["task_id"]),
        prompt=prompt,
        function=str(record["entry_point"]),
        reference=solution if alone else prompt + solution,
        inputs=tuple(tuple(arguments) for arguments in inputs),
    )


def _examples(assertion: str, function: str) -> list[Any]:
    """The arguments of the first call of the function in a problem's own assertions; [] where they are no literals."""
    try:
        for node in ast.walk(ast.parse(assertion)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function:
                return [ast.literal_eval(argument) for argument in node.args]
    except (SyntaxError, ValueError):
        return []
    return []


def _shaped(value: Any, example: Any) -> Any:
    """A value with the types that JSON has lost: tuples, sets and complex numbers, as the example has them."""
    if isinstance(value, list) and isinstance(example, list | tuple | set | frozenset):
        inner = [one for one in example if isinstance(one, list | tuple | set | frozenset)]
        deeper = inner[0] if inner else example if isinstance(example, tuple) else None
        made = [_shaped(one, deeper) if isinstance(one, list) else _shaped(one, _first(example)) for one in value]
        return made if isinstance(example, list) else type(example)(made)
    if isinstance(value, str) and isinstance(example, int | float | complex):
        try:
            return complex(value)
        except ValueError:
            return value
    return value


def _first(example: Any) -> Any:
    return next(iter(example), None)
