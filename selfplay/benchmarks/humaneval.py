"""HumanEval's records: a header with its docstring to continue, and a function `check` with assertions about it."""

from __future__ import annotations

import ast

from selfplay.benchmarks.benchmark import Record
from selfplay.benchmarks.code_task import CodeTask
from selfplay.sandbox.judge.cases import AssertTest

_SEEDED = "import random as _random\n_random.seed(0)\n"  # a check that draws inputs must draw the same ones again


def task_of(record: Record) -> CodeTask:
    """A problem as a coding task. Raises KeyError for a missing field and ValueError for one that cannot be used."""
    prompt, function = str(record["prompt"]), str(record["entry_point"])
    before = preamble(prompt, function)
    test = AssertTest(function, f"{_SEEDED}{record['test']}\n\ncheck({function})", setup=before)
    solution = str(record.get("canonical_solution") or "")
    return CodeTask(
        task_id=str(record["task_id"]),
        statement=prompt,
        hidden=(test,),
        reference=prompt + solution if solution else "",
        function=function,
        starter_code=prompt,
        source={"preamble": before},
    )


def preamble(prompt: str, function: str) -> str:
    """What stands before the function's own header: imports and helpers."""
    tree = ast.parse(prompt.rstrip() + "\n    pass\n")
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return "\n".join(prompt.splitlines()[: node.lineno - 1])
    raise ValueError(f"prompt: it does not define {function}")


def program_of(task: CodeTask, code: str) -> str:
    """The program that a response's code makes: after the imports of the prompt, or after the prompt itself where the
    code is the body alone."""
    try:
        names = {node.name for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)}
    except SyntaxError:
        names = set()
    if task.function in names:
        return f"{task.source['preamble']}\n{code}"
    indented = code if code[:1].isspace() else "\n".join(f"    {line}" for line in code.splitlines())
    return f"{task.statement}\n{indented}\n" if not names else f"{task.source['preamble']}\n{code}"
