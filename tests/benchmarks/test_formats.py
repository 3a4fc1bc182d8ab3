"""Published formats: read, written, and read again; what is broken or malicious is refused by file and line."""

from __future__ import annotations

import base64
import json
import os
import pickle
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from selfplay.benchmarks import livecodebench, mbpp_plus, scicode
from selfplay.benchmarks.code_task import BadData
from selfplay.sandbox.config import JudgeConfig
from selfplay.sandbox.judge.cases import CallTest, StdioTest
from selfplay.sandbox.judge.judge import Job, Judge, Outcome

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

STDIN: dict[str, Any] = {
    "question_title": "Double",
    "question_id": "d1",
    "platform": "atcoder",
    "contest_id": "abc1",
    "contest_date": "2024-01-01T00:00:00",
    "difficulty": "easy",
    "question_content": "Print twice the number.",
    "starter_code": "",
    "public_test_cases": json.dumps([{"input": "1\r\n", "output": "2\r\n", "testtype": "stdin"}]),
    "private_test_cases": json.dumps([{"input": "5", "output": "10", "testtype": "stdin"}]),
    "metadata": "{}",
}
FUNCTIONAL = {
    **STDIN,
    "question_id": "f1",
    "starter_code": "class Solution:\n    def join(self, words: List[str], times: int) -> str:",
    "public_test_cases": json.dumps([{"input": '["a", "b"]\n2', "output": '"abab"', "testtype": "functional"}]),
    "private_test_cases": livecodebench.pack(
        json.dumps([{"input": '["x"]\n0', "output": '""', "testtype": "functional"}])
    ),
    "metadata": json.dumps({"func_name": "join"}),
}


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    judge = Judge(JudgeConfig())
    yield judge
    judge.close()


def write(folder: Path, *records: Any) -> Path:
    path = folder / "tasks.jsonl"
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records))
    return path


# ---------------------------------------------------------------- LiveCodeBench


def test_livecodebench_in(tmp_path: Path, judge: Judge) -> None:
    stdin, functional = livecodebench.read(write(tmp_path, STDIN, "", FUNCTIONAL))
    assert stdin.public == (StdioTest("1\n", "2\n"),)
    assert stdin.hidden == (StdioTest("5", "10"),)
    assert functional.function == "join"
    assert functional.tests == (CallTest("join", (["a", "b"], 2), "abab"), CallTest("join", (["x"], 0), ""))
    solution = "class Solution:\n    def join(self, words, times): return ''.join(words) * times"
    verdicts = judge.judge_all([Job("print(int(input()) * 2)", stdin.tests), Job(solution, functional.tests)])
    assert all(verdict.passed for verdict in verdicts)


@pytest.mark.parametrize("packed", [False, True])
def test_livecodebench_out_and_in_again(packed: bool, tmp_path: Path) -> None:
    tasks = list(livecodebench.read(write(tmp_path, STDIN, FUNCTIONAL)))
    text = livecodebench.lines_of(tasks, packed=packed)
    again = list(livecodebench.read(write(tmp_path, *text.splitlines())))
    assert [t.tests for t in again] == [t.tests for t in tasks]
    assert [t.source["contest_date"] for t in again] == ["2024-01-01T00:00:00"] * 2
    assert [t.function for t in again] == ["", "join"]
    # What LiveCodeBench's own loader does with the field.
    field = json.loads(text.splitlines()[0])["private_test_cases"]
    if packed:
        field = pickle.loads(zlib.decompress(base64.b64decode(field.encode("utf-8"))))  # of our own making
    assert json.loads(field) == [{"input": "5", "output": "10", "testtype": "stdin"}]


class Bomb:
    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/selfplay-was-here",)


def test_a_pickle_that_would_run_something_is_refused(tmp_path: Path) -> None:
    evil = base64.b64encode(zlib.compress(pickle.dumps(Bomb()))).decode()
    path = write(tmp_path, STDIN, {**STDIN, "private_test_cases": evil})
    with pytest.raises(
        BadData, match=r"tasks.jsonl:2: private_test_cases: a pickle that is refused: it asks for posix.system"
    ):
        list(livecodebench.read(path))
    assert not Path("/tmp/selfplay-was-here").exists()


def test_a_decompression_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(livecodebench, "MAX_TESTS_MIB", 1)
    bomb = base64.b64encode(zlib.compress(b"\0" * (8 << 20))).decode()
    with pytest.raises(ValueError, match="more than 1 MiB"):
        livecodebench.unpack(bomb)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"private_test_cases": "@@@"}, "private_test_cases: not packed tests"),
        ({"private_test_cases": "[{]"}, "private_test_cases: "),
        ({"private_test_cases": json.dumps([{"input": "1"}])}, "private_test_cases: 'output'"),
        ({"private_test_cases": json.dumps([{"input": "1", "output": "1", "testtype": "functional"}])}, "func_name"),
        ({"private_test_cases": base64.b64encode(zlib.compress(pickle.dumps(7))).decode()}, "hold a text, not int"),
        ({"private_test_cases": base64.b64encode(zlib.compress(b"garbage")).decode()}, "private_test_cases: "),
        ({"metadata": "{"}, "tasks.jsonl:1: "),
    ],
)
def test_broken_records_are_named(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"tasks.jsonl:1: ") as caught:
        list(livecodebench.read(write(tmp_path, {**STDIN, **change})))
    assert message in str(caught.value)


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    record = {key: value for key, value in STDIN.items() if key != "question_content"}
    with pytest.raises(BadData, match=r"tasks.jsonl:1: no field 'question_content'"):
        list(livecodebench.read(write(tmp_path, record)))


# ---------------------------------------------------------------- EvalPlus


def test_evalplus_solutions_stand_alone_or_continue_their_prompt() -> None:
    alone = {
        "task_id": "Mbpp/1",
        "prompt": '"""Add."""\n',
        "entry_point": "add",
        "canonical_solution": "\ndef add(a, b):\n    return a + b\n",
        "base_input": [[1, 2]],
        "plus_input": "[[3, 4]]",
    }
    continued = {**alone, "prompt": "def add(a, b):\n", "canonical_solution": "    return a + b\n", "plus_input": []}
    for record, inputs in ((alone, 2), (continued, 1)):
        problem = mbpp_plus.problem_of(record)
        names: dict[str, Any] = {}
        exec(problem.reference, names)
        assert [names["add"](*given) for given in problem.inputs] == [3, 7][:inputs]


@pytest.mark.parametrize(
    ("assertion", "given", "expected"),
    [
        ("assert f([5, 6], (9, 10)) == 1", [[1, 2], [3]], ([1, 2], (3,))),
        ("assert f((4, (7, (2, 4)), 6)) == 1", [[1, [2, [3]], 4]], ((1, (2, (3,)), 4),)),
        ("assert f([(1, 2), (3, 4)]) == 1", [[[5, 6], [7]]], ([(5, 6), (7,)],)),
        ("assert f({1, 2}) == 1", [[3, 3]], ({3},)),
        ("import math\nassert math.isclose(f(0, 1j), 1.5)", ["2", "1j"], (2 + 0j, 1j)),
        ("assert f('a', [1]) == 1", ["1j", [2]], ("1j", [2])),
        ("assert f(x) == 1", [[1]], ([1],)),  # no literals: as the file has it
        ("not python", [[1]], ([1],)),
    ],
)
def test_evalplus_inputs_get_back_the_types_that_json_has_lost(assertion: str, given: Any, expected: Any) -> None:
    record = {"task_id": "1", "prompt": "", "entry_point": "f", "canonical_solution": "def f(*a): pass"}
    record |= {"base_input": [given], "plus_input": [], "assertion": assertion}
    (found,) = mbpp_plus.problem_of(record).inputs
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))


# ---------------------------------------------------------------- SciCode

SCICODE: dict[str, Any] = {
    "problem_name": "areas",
    "problem_id": "1",
    "required_dependencies": "import math",
    "sub_steps": [
        {
            "step_number": "1.1",
            "step_description_prompt": "The area of a square.",
            "step_background": "Geometry.",
            "function_header": 'def square(a):\n    """Area."""',
            "ground_truth_code": 'def square(a):\n    """Area."""\n    return a * a',
            "test_cases": ["side = 3\nassert math.isclose(square(side), target)", "assert square(side + 1) == target"],
            "return_line": "    return area",
        },
        {
            "step_number": "1.2",
            "step_description_prompt": "The volume of a cube.",
            "function_header": "def cube(a):",
            "ground_truth_code": "def cube(a):\n    return a * square(a)",
            "test_cases": ["assert cube(square(2)) == target"],
        },
    ],
}


def test_scicode_in(tmp_path: Path, judge: Judge) -> None:
    targets = {"1.1": ["9", "16"], "1.2": ["64"]}
    square, cube = scicode.read(write(tmp_path, SCICODE), targets)
    assert square.statement == "The area of a square.\n\nGeometry."
    assert (square.function, cube.function) == ("square", "cube")
    assert judge.judge(square.reference, square.tests).passed  # the second test uses a variable of the first
    assert judge.judge(f"def square(a): return a * a\n{cube.reference}", cube.tests).passed
    assert judge.judge("def square(a): return 9", square.tests).outcome is Outcome.WRONG


def test_scicode_targets_can_be_made_again() -> None:
    source = scicode.target_program("x = 3\nassert np.allclose(f(x), target)")
    assert source == "x = 3\ntarget = f(x)"
    assert scicode.target_program("assert target == f(1)") == "target = f(1)"
    with pytest.raises(ValueError, match="compares nothing with target"):
        scicode.target_program("assert f(1) > 0")


def test_scicode_out_and_in_again(tmp_path: Path) -> None:
    (square, _) = scicode.read(write(tmp_path, SCICODE))
    record = scicode.problem_of([square], "e1", "evolved areas")
    assert set(SCICODE) <= set(record)
    assert set(SCICODE["sub_steps"][0]) == set(record["sub_steps"][0])
    (again,) = scicode.tasks_of(record, {})
    assert (again.function, again.reference) == (square.function, square.reference)
    assert again.hidden == square.hidden


def test_a_scicode_header_without_a_name_is_named(tmp_path: Path) -> None:
    step = {**SCICODE["sub_steps"][0], "function_header": "x = 1"}
    with pytest.raises(BadData, match=r"tasks.jsonl:1: function_header defines nothing"):
        list(scicode.read(write(tmp_path, {**SCICODE, "sub_steps": [step]})))


# ---------------------------------------------------------------- real files


def real(name: str) -> Path:
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"{name} is not at hand")
    return path


def test_real_livecodebench_shaped_problems(judge: Judge) -> None:
    tasks = list(livecodebench.read(real("codecontests.jsonl")))
    assert len(tasks) == 150
    few = tasks[:20]
    verdicts = judge.judge_all([Job(task.reference, task.tests) for task in few])
    assert sum(verdict.passed for verdict in verdicts) >= 14  # of all 150, 26 have several right outputs or bad data


def test_real_evalplus_problems() -> None:
    problems = list(mbpp_plus.read(real("MbppPlus.jsonl.gz")))
    assert len(problems) == 378
    assert all(problem.inputs and f"def {problem.function}" in problem.reference for problem in problems)


def test_real_scicode_problems() -> None:
    tasks = list(scicode.read(real("scicode_dev.jsonl")))
    assert len(tasks) == 50
    assert all(task.tests for task in tasks)
