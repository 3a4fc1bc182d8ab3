"""Tasks for functions: assertions whose targets the reference gives, and statements that solvers can work from."""

from __future__ import annotations

import ast
import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_models import Scripted, code

from selfplay.algos.benchevolver.candidate import Reason
from selfplay.algos.benchevolver.evolution_config import EvolutionConfig
from selfplay.algos.benchevolver.evolve import Evolution, Lineage
from selfplay.algos.benchevolver.function_proposal import header_of
from selfplay.algos.benchevolver.models import Budget, BudgetConfig, CallLog, Models
from selfplay.algos.benchevolver.release import write_release
from selfplay.benchmarks import livecodebench, scicode
from selfplay.benchmarks.code_task import CodeTask, from_record, to_record
from selfplay.sandbox.config import JudgeConfig
from selfplay.sandbox.judge.cases import AssertTest, CallTest, StdioTest
from selfplay.sandbox.judge.judge import Judge

MEAN = "def mean(x):\n    return sum(x) / len(x)"
SPREAD = (
    "import math\n\ndef spread(x):\n    m = sum(x) / len(x)\n"
    "    return math.sqrt(sum((v - m) ** 2 for v in x) / len(x))"
)
SAMPLE = SPREAD.replace("/ len(x))", "/ (len(x) - 1))")
VAGUE = "How far do the numbers of a list lie from their middle?"
CLEAR = f"{VAGUE} Give the root of the mean squared deviation from the mean, over all n values."


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    judge = Judge(JudgeConfig(wall_s=1.0))
    yield judge
    judge.close()


def seed(**changes: Any) -> CodeTask:
    tests = tuple(AssertTest("mean", f"assert abs(mean([{i}, 2, 6]) - target) < 1e-9") for i in range(3))
    fields = {"task_id": "mean", "statement": "The mean of a list of numbers.", "hidden": tests, "reference": MEAN}
    return CodeTask(**(fields | {"function": "mean", "starter_code": "def mean(x):"} | changes))


def mutated(program: str = SPREAD) -> str:
    return f"<family>spread</family><idea>deviations</idea><why>a mean is no spread</why>\n{code(program)}"


def written(statement: str = CLEAR, tests: str = "") -> str:
    blocks = tests or "\n".join(
        f"```python\nx = [{i}, 2, {i * i}, 7]\nassert abs(spread(x) - target) < 1e-9\n```" for i in range(6)
    )
    return f"<statement>{statement}</statement>\n<tests>\n{blocks}\n</tests>"


def answer(kind: str) -> Any:
    """Solvers understand the clear statement alone; targets are right twice in five."""

    def reply(call: Any, n: int) -> str:
        text = call.messages[0]["content"]
        if "The mean of a list" in text:
            return code(MEAN)
        right = "all n values" in text and (kind != "target" or call.key[-2] < 2)
        return code(SPREAD if right else SAMPLE)

    return reply


def evolve(judge: Judge, folder: Path, *seeds: CodeTask, **script: Any) -> list[Lineage]:
    steps = {"mutate": lambda c, n: mutated(), "write": lambda c, n: written(), "brute_force": answer("brute_force")}
    model = Scripted(**(steps | {"target": answer("target")} | script))
    models = Models(
        dict.fromkeys(("proposer", "brute_force", "target"), model),
        CallLog(folder / "calls.jsonl"),
        Budget(BudgetConfig()),
    )
    return asyncio.run(Evolution(models, judge, EvolutionConfig(steps=1)).run(seeds or [seed()]))


def test_a_harder_function_is_accepted(judge: Judge, tmp_path: Path) -> None:
    (lineage,) = evolve(judge, tmp_path)
    (one,) = lineage.evolved
    assert lineage.memory.seed_accuracy == 1.0
    assert one.accuracy == 0.4
    task = one.task
    assert (task.function, task.starter_code) == ("spread", "def spread(x):")
    first = task.hidden[0]
    assert isinstance(first, AssertTest)
    assert first.setup == "import math"
    assert float(json.loads(first.target or "0")) == pytest.approx((32.75 / 4) ** 0.5)  # of 0, 2, 0, 7
    assert judge.judge(SPREAD, task.tests).passed
    assert not judge.judge(SAMPLE, task.tests).passed


def test_a_vague_statement_is_revised_until_a_solver_can_work_from_it(judge: Judge, tmp_path: Path) -> None:
    script = {"write": lambda c, n: written(VAGUE), "statement": lambda c, n: f"<statement>{CLEAR}</statement>"}
    (lineage,) = evolve(judge, tmp_path, **script)
    assert lineage.memory.attempts[0].repairs == ["statement"]
    assert lineage.evolved[0].task.statement == CLEAR


@pytest.mark.parametrize(
    ("reason", "script"),
    [
        (Reason.UNFAITHFUL, {"write": lambda c, n: written(VAGUE), "statement": lambda c, n: "no"}),
        (Reason.NO_CODE, {"mutate": lambda c, n: mutated("x = 1")}),
        (Reason.NO_CODE, {"mutate": lambda c, n: mutated("def f(:")}),
        (Reason.UNCHANGED, {"mutate": lambda c, n: mutated(MEAN)}),
        (Reason.PARENT_SOLVES, {"mutate": lambda c, n: mutated(MEAN.replace("mean", "spread"))}),
        (Reason.NO_STATEMENT, {"write": lambda c, n: "<statement>x</statement>"}),
        (Reason.NO_TESTS, {"write": lambda c, n: written(tests="```python\nassert spread([1]) == target\n```")}),
        (Reason.NO_TESTS, {"write": lambda c, n: written(tests="```python\nassert True\n```\n" * 9)}),
        (
            Reason.UNSTABLE,
            {"mutate": lambda c, n: mutated("import time\n\ndef spread(x):\n    return time.perf_counter_ns()")},
        ),
    ],
)
def test_rejections_have_a_reason(reason: Reason, script: Any, judge: Judge, tmp_path: Path) -> None:
    (lineage,) = evolve(judge, tmp_path, **script)
    (attempt,) = lineage.memory.attempts
    assert attempt.reason is reason, attempt.detail
    assert len(attempt.repairs) == (3 if reason is Reason.UNFAITHFUL else 0)


def test_broken_tests_of_a_seed_and_of_a_proposal_are_named(judge: Judge, tmp_path: Path) -> None:
    broken = (AssertTest("mean", "x = nobody_knows\nassert mean(x) == 1"),)
    sound, unsound = evolve(judge, tmp_path, seed(), seed(task_id="broken", hidden=broken))
    assert unsound.unsound.startswith("a test is broken: a test fails before it calls mean: NameError")
    assert len(sound.evolved) == 1
    # Its target can be had, and then it fails before it calls anything: the stand-in has no attributes.
    blocks = "\n".join(
        f"```python\nspread.__code__.co_code[{i}]\nspread.extra\nassert spread([{i}, 2]) == target\n```"
        for i in range(6)
    )
    program = f"{SPREAD}\nspread.extra = 1"
    script = {"mutate": lambda c, n: mutated(program), "write": lambda c, n: written(tests=blocks)}
    (lineage,) = evolve(judge, tmp_path / "2", **script)
    (attempt,) = lineage.memory.attempts
    assert attempt.reason is Reason.NO_TESTS
    assert attempt.detail.startswith("a test is broken: a test fails before it calls spread: AttributeError")


def test_evolved_functions_are_released_in_scicode_s_format(judge: Judge, tmp_path: Path) -> None:
    lineages = evolve(judge, tmp_path)
    manifest = write_release(
        tmp_path, lineages, version="1", models={}, licence="MIT", evaluation={}, scores={"mean.e1": 4}
    )
    assert manifest["plus"]["tasks"] == 1
    assert (tmp_path / "evolved.jsonl").read_text() == ""
    targets = json.loads((tmp_path / "evolved_targets.json").read_text())
    (task,) = scicode.read(tmp_path / "evolved_scicode.jsonl", targets)
    assert judge.judge(task.reference, task.tests).passed
    assert not judge.judge(SAMPLE, task.tests).passed


def test_a_task_survives_the_way_through_a_record() -> None:
    tests = (StdioTest("1\n", "2\n"), CallTest("f", (1, [2]), [3]), AssertTest("f", "assert f(1) == target", "", "3"))
    task = CodeTask("t", "s", tests[:1], tests[1:], "r", "f", "def f(x):", True, "hard")
    assert from_record(json.loads(json.dumps(to_record(task)))) == task


def test_a_header_is_the_signature_with_its_docstring() -> None:
    def parsed(text: str) -> ast.FunctionDef:
        node = ast.parse(text).body[0]
        assert isinstance(node, ast.FunctionDef)
        return node

    assert (
        header_of(parsed("@cache\ndef f(a, *, b: int = 2) -> float:\n    return a"))
        == "def f(a, *, b: int=2) -> float:"
    )
    header = header_of(parsed('def f(a):\n    """What it is."""\n    return a'))
    assert header == 'def f(a):\n    """What it is."""'
    assert scicode.function_of(header) == "f"


def test_functional_problems_of_livecodebench_evolve_as_functions(judge: Judge, tmp_path: Path) -> None:
    tests = (CallTest("mean", ([1, 3],), 2.0), CallTest("mean", ([1, 2, 6],), 3.0))
    method = "class Solution:\n    def mean(self, x):\n        return sum(x) / len(x)"
    task = livecodebench.task_of(livecodebench.record_of(
        seed(hidden=tests, reference=method, source={"metadata": {"func_name": "mean"}})
    ))  # fmt: skip
    (lineage,) = evolve(judge, tmp_path, task)
    assert len(lineage.evolved) == 1
