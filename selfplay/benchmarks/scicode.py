"""SciCode's files: a problem a line, its sub-steps with a function header, dependencies and assertions about it.

Targets (the value that an assertion calls `target`) come in a `.h5` file that is published apart; `read` takes them as
JSON lists by step, or leaves them out.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from selfplay.benchmarks.code_task import BadData, CodeTask
from selfplay.sandbox.judge.cases import AssertTest, Test
from selfplay.sandbox.judge.harness import value_program, written
from selfplay.sandbox.judge.judge import Judge

Targets = Mapping[str, Sequence[str]]  # step number -> for each test its target, as JSON of `values.dumps`


def read(path: Path | str, targets: Targets | None = None) -> Iterator[CodeTask]:
    """The sub-steps of a file as tasks. Raises BadData, naming file and line."""
    with Path(path).open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield from tasks_of(json.loads(line), targets or {})
            except (ValueError, TypeError, KeyError, SyntaxError) as error:
                what = f"no field {error}" if isinstance(error, KeyError) else error
                raise BadData(f"{path}:{number}: {what}") from error


def tasks_of(problem: Mapping[str, Any], targets: Targets) -> Iterator[CodeTask]:
    """Every sub-step: the setup of its tests is the dependencies and the earlier steps' own code."""
    before = str(problem["required_dependencies"])
    for step in problem["sub_steps"]:
        name, number = function_of(step["function_header"]), str(step["step_number"])
        known = targets.get(number, ())
        tests: list[Test] = []
        shared = ""  # SciCode runs a step's tests in one process, and later ones use variables of earlier ones
        for i, source in enumerate(step["test_cases"]):
            tests.append(AssertTest(name, source, before + shared, known[i] if i < len(known) else None))
            shared += "\n" + _definitions(source, name)
        background = str(step.get("step_background") or "")
        yield CodeTask(
            task_id=number,
            statement="\n\n".join(part for part in (str(step["step_description_prompt"]), background) if part),
            hidden=tuple(tests),
            reference=f"{before}\n\n{step['ground_truth_code']}",
            function=name,
            starter_code=str(step["function_header"]),
            source={"problem": problem, "step": step, "setup": before},
        )
        before = f"{before}\n\n{step['ground_truth_code']}"


def function_of(header: str) -> str:
    """The name that a header defines: a function's, or a class's. Raises ValueError if it defines none."""
    body = header.rstrip()
    tree = ast.parse(body if not body.endswith(":") else f"{body}\n    pass")
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            return node.name
    raise ValueError("function_header defines nothing")


def _definitions(source: str, function: str) -> str:
    """The statements of a test that assert nothing and need no call of the function, not even in a roundabout way."""
    kept, gone = "", {function}
    for node in ast.parse(source).body:
        used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        if isinstance(node, ast.Assert) or used & gone:
            gone |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            gone |= {n.name for n in ast.walk(node) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        else:
            kept += ast.unparse(node) + "\n"
    return kept


def target_program(source: str) -> str:
    """A test's statements that leave in `target` what its assertion compares with it: with the task's own code before
    it, a program that makes a lost target again. Raises ValueError if the last statement compares nothing with it."""
    tree = ast.parse(source)
    last = tree.body[-1] if tree.body else None
    for node in ast.walk(last) if isinstance(last, ast.Assert) else ():
        sides: list[ast.expr] = []
        if isinstance(node, ast.Call) and len(node.args) >= 2:
            sides = node.args[:2]
        elif isinstance(node, ast.Compare) and len(node.comparators) == 1:
            sides = [node.left, node.comparators[0]]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):  # abs(f(x) - target) < 1e-9
            sides = [node.left, node.right]
        names = [isinstance(side, ast.Name) and side.id == "target" for side in sides]
        if names.count(True) == 1:
            tree.body[-1] = ast.Assign([ast.Name("target", ast.Store())], sides[names.index(False)])
            return ast.unparse(ast.fix_missing_locations(tree))
    raise ValueError("its last statement compares nothing with target")


def with_targets(judge: Judge, reference: str, tests: Sequence[Test]) -> list[AssertTest]:
    """The tests with what `reference` gives as their targets.

    Those that know of no target stay as they are; those whose target cannot be had are left out.
    """
    found = []
    for test in tests:
        if not isinstance(test, AssertTest):
            continue
        if not re.search(r"\btarget\b", test.source):
            found.append(test)
            continue
        try:
            source = f"{test.setup}\n{reference}\n{target_program(test.source)}"
        except (ValueError, SyntaxError, RecursionError):
            continue
        value = written(judge.output(value_program(source, "target"), "").stdout)
        if value is not None:
            found.append(replace(test, target=value))
    return found


def problem_of(tasks: Sequence[CodeTask], problem_id: str, name: str) -> dict[str, Any]:
    """A problem record of evolved sub-steps, as SciCode's loader takes it."""
    setup = str(tasks[0].source.get("setup", ""))
    steps = [
        {
            "step_number": f"{problem_id}.{i}",
            "step_description_prompt": task.statement,
            "step_background": "",
            "ground_truth_code": task.reference.removeprefix(setup).strip("\n"),
            "function_header": task.starter_code,
            "test_cases": [test.source for test in task.hidden if isinstance(test, AssertTest)],
            "return_line": "",
        }
        for i, task in enumerate(tasks, start=1)
    ]
    return {
        "problem_name": name,
        "problem_id": problem_id,
        "problem_description_main": tasks[0].statement,
        "problem_background_main": "",
        "problem_io": "",
        "required_dependencies": setup,
        "sub_steps": steps,
        "general_solution": tasks[-1].reference,
        "general_tests": steps[-1]["test_cases"],
    }


def lines_of(problems: Iterable[Mapping[str, Any]]) -> str:
    """A file of problems."""
    return "".join(json.dumps(problem) + "\n" for problem in problems)
