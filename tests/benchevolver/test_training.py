"""Rewards, grades, mixtures, and the micro-domain that `tiny` is trained on."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_models import SQUARES, SUM, code, seed

from selfplay.algos.benchevolver import micro, replies
from selfplay.algos.benchevolver.attempts import Attempt, Grade, grade
from selfplay.algos.benchevolver.compact import Compact, wording_of
from selfplay.algos.benchevolver.episodes import _read, to_train_on, write_tasks
from selfplay.algos.benchevolver.mixtures import batch_of, clear_of, mixture
from selfplay.algos.benchevolver.prompts import Full, asked
from selfplay.algos.benchevolver.rewards import metrics, reward
from selfplay.sandbox.config import JudgeConfig
from selfplay.sandbox.judge.judge import Judge


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    judge = Judge(JudgeConfig(wall_s=1.0))
    yield judge
    judge.close()


# ---------------------------------------------------------------- what an attempt is worth


@pytest.mark.parametrize(
    ("text", "finished", "outcome", "worth"),
    [
        (code(SUM), True, "OK", 1.0),
        (code(SQUARES), True, "WA", 0.0),
        (code("print(1 / 0)"), True, "RE", 0.0),
        (code("while True: pass"), True, "TLE", 0.0),
        ("The answer is 3.", True, "no code", -0.1),
        ("", True, "no code", -0.1),
        (code(SUM), False, "cut off", -0.1),  # the budget was used up: whatever stands there is no final answer
        ("thinking", False, "cut off", -0.1),
        (code(SQUARES) + code(SUM), True, "OK", 1.0),  # the last block counts
        (code(SUM) + code(SQUARES), True, "WA", 0.0),
        (f"```python\n{SUM}", True, "OK", 1.0),  # a fence that is never closed
        ("```\n\n```", True, "no code", -0.1),  # an empty block is none
    ],
)
def test_rewards(text: str, finished: bool, outcome: str, worth: float, judge: Judge) -> None:
    (one,) = grade(judge, [Attempt(seed(), text, finished)])
    assert (one.outcome, reward(one, finished)) == (outcome, worth)


CHEATS = {
    "prints every answer there might be": "print(*range(100))",
    "reads the tests": "import glob\nprint(*[open(f).read() for f in glob.glob('/**/*.jsonl', recursive=True)])",
    "asks its caller": "import sys\nf = sys._getframe()\nwhile f.f_back: f = f.f_back\nprint(f.f_locals)",
    "looks at the environment": "import os\nprint(os.environ)",
    "ends well without a word": "import os\nos._exit(0)",
    "prints the public example": "print(3)",
    "equals everything": "class A:\n    __eq__ = lambda *_: True\n    __str__ = lambda s: ''\nprint(A())",
}


@pytest.mark.parametrize("program", CHEATS.values(), ids=CHEATS.keys())
def test_cheats_earn_nothing(program: str, judge: Judge) -> None:
    (one,) = grade(judge, [Attempt(seed(), code(program))])
    assert not one.passed


def test_one_program_is_judged_once_for_a_task(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[int] = []
    whole = judge.judge_all
    monkeypatch.setattr(judge, "judge_all", lambda asked, **more: (jobs.append(len(asked)), whole(asked, **more))[1])
    first, second = seed("a"), seed("b")
    attempts = [Attempt(first, code(SUM)), Attempt(first, code(SUM)), Attempt(second, code(SUM)), Attempt(first, "no")]
    assert [one.outcome for one in grade(judge, attempts)] == ["OK", "OK", "OK", "no code"]
    assert jobs == [2]


def test_metrics_of_a_batch() -> None:
    rows = [
        {"group": "a", "reward": 1.0, "verdict": "OK", "tokens": 10},
        {"group": "a", "reward": 0.0, "verdict": "WA", "tokens": 20},
        {"group": "b", "reward": -0.1, "verdict": "no code", "tokens": 30},
        {"group": "b", "reward": -0.1, "verdict": "no code", "tokens": 40},
    ]
    values = metrics(rows)
    assert values["reward"] == pytest.approx(0.2)
    assert (values["solved"], values["response_tokens"], values["mixed_groups"]) == (0.25, 25.0, 0.5)
    assert (values["outcome/OK"], values["outcome/no code"]) == (0.25, 0.5)
    assert Grade(True, True, "OK").passed


# ---------------------------------------------------------------- what is trained on


def test_mixtures() -> None:
    seeds, evolved = [seed("s")], [seed("e1"), seed("e2")]
    names = {name: [t.task_id for t in mixture(name, seeds, evolved)] for name in ("seed", "evolved", "seed_evolved")}
    assert names == {"seed": ["s"], "evolved": ["e1", "e2"], "seed_evolved": ["s", "e1", "e2"]}


def test_tasks_that_share_text_with_the_evaluation_are_left_out() -> None:
    words = "one two three four five six seven eight nine ten eleven twelve thirteen"
    close, far = (
        seed("close", statement=f"Before: {words} and after."),
        seed("far", statement="Something else entirely."),
    )
    assert clear_of([close, far], [seed("held out", statement=f"{words} again")]) == [far]


def test_batches_go_through_everything_before_anything_comes_again() -> None:
    places = [place for step in range(5) for place in batch_of(10, step, 4, seed=3)]
    assert [sorted(places[i : i + 10]) for i in (0, 10)] == [list(range(10))] * 2
    assert places[:10] != places[10:]
    assert batch_of(10, 2, 4, seed=3) == places[8:12]  # a resumed run finds the same
    assert sorted(batch_of(3, 0, 6, seed=0)) == [0, 0, 1, 1, 2, 2]


def test_workers_read_the_tasks_that_the_driver_wrote(tmp_path: Path) -> None:
    tasks = [seed("a"), seed("b", statement="Zwölf Wörter – übrig.\nUnd eine Zeile."), seed("c")]
    write_tasks(tmp_path / "tasks.jsonl", tasks)
    found = to_train_on(tmp_path / "tasks.jsonl")
    assert [_read(Path(task.payload["file"]), task.payload["offset"]) for task in found] == tasks


# ---------------------------------------------------------------- the micro-domain


def test_references_pass_and_parents_fail(judge: Judge) -> None:
    tasks = [*micro.seeds(), *micro.heldout()]
    assert all(one.passed for one in grade(judge, [Attempt(task, code(task.reference)) for task in tasks]))
    assert len({task.statement for task in tasks}) == len(tasks)  # nothing held out is a seed
    assert Counter(task.difficulty for task in micro.heldout()) == {"2": 30, "3": 30, "4": 30}


def test_a_harder_program_is_the_old_one_with_one_step_more() -> None:
    rng = random.Random(5)
    for _ in range(200):
        program = micro.draw(rng, rng.randint(1, 3))
        used = rng.sample(list(micro.FAMILIES), 3)
        child, step = micro.harder(program, rng, used)
        assert step.family not in {*used, *program.families}
        assert [one for one in child.steps if one is not step] == list(program.steps)
        assert child.end == program.end


def test_slips_come_with_steps_and_never_alone() -> None:
    assert micro.slips(1, 0.35) == 0.0
    assert micro.slips(2, 0.35) == pytest.approx(0.35)
    assert micro.slips(3, 0.35) == pytest.approx(0.5775)  # 1 - 0.65 ** 2
    rng = random.Random(5)
    for _ in range(200):
        program = micro.draw(rng, rng.randint(2, 4))
        assert micro.slip(program, rng) != program


def test_demonstrations_keep_clear_of_what_is_held_out() -> None:
    forbidden = {program.statement for program in micro.heldout_programs()}
    demos = micro.demonstrations(seed=3, n=4000, slip_share=0.35, forbidden=forbidden)
    assert {demo.role for demo in demos} == set(micro.SHARES)
    for demo in demos:
        assert not any(statement in demo.messages[0]["content"] + demo.response for statement in forbidden)


def test_demonstrated_replies_can_be_read(judge: Judge) -> None:
    seen: Counter[str] = Counter()
    for demo in micro.demonstrations(seed=4, n=600, slip_share=0.0, forbidden=()):
        seen[demo.role] += 1
        if demo.role == "mutate":
            change = replies.mutation(demo.response)
            assert change.family in micro.FAMILIES
            assert change.reference.startswith(micro.READ)
        elif demo.role == "write":
            statement, inputs = replies.written(demo.response)
            assert statement.startswith("Read numbers.")
            assert len(inputs.public) + sum(map(len, inputs.hidden.values())) == 4
            assert [len(inputs.generators[regime]) for regime in ("large", "stress")] == [1, 1]
        elif demo.role == "problem":
            replies.explanation(demo.response)
            replies.read_statement(demo.response)
        elif demo.role == "inputs":
            replies.read_inputs(demo.response)
        elif demo.role == "quality":
            assert replies.section(demo.response, "score") in ("2", "4")
        elif demo.role in ("target", "brute_force", "oracle", "reference"):
            assert replies.last_code(demo.response)
    assert min(seen.values()) >= 5


def test_solvers_see_the_statement_and_public_examples_alone() -> None:
    task = seed()
    (full,) = asked(Full(), task, 6.0)
    assert task.statement in full["content"]
    assert "1 2\n" in full["content"]
    assert "4 5" not in full["content"]
    assert "sum(" not in full["content"]
    (short,) = asked(wording_of("compact"), task, 6.0)
    assert short["content"] == f"solve\n{task.statement}"
    assert isinstance(wording_of("full"), Full)
    assert isinstance(wording_of("compact"), Compact)
