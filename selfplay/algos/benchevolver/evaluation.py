"""Held-out accuracy: attempts at problems, each judged by all of its tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from selfplay.algos.benchevolver.attempts import Attempt, grade
from selfplay.algos.benchevolver.config import BenchEvolverConfig
from selfplay.algos.benchevolver.prompts import Wording, asked
from selfplay.algos.scoring import score
from selfplay.benchmarks.code_task import CodeTask
from selfplay.engine.session import Session
from selfplay.runs.summary import EvalScore
from selfplay.sandbox.judge.judge import Judge


def evaluate(
    session: Session, judge: Judge, wording: Wording, problems: Sequence[CodeTask], algo: BenchEvolverConfig
) -> tuple[EvalScore, list[dict[str, Any]]]:
    """The session's policy on every problem, `eval.samples` times; the score, and a record a problem."""
    config = algo.eval
    tasks = [task for task in problems for _ in range(config.samples)]
    samples = session.generate(
        [session.render(asked(wording, task, judge.config.wall_s)) for task in tasks],
        max_tokens=config.max_tokens,
        seed_key=("evaluation",),
        temperature=config.temperature,
        top_p=algo.top_p,
    )
    attempts = [Attempt(task, one.text, one.finished) for task, one in zip(tasks, samples, strict=True)]
    grades = grade(judge, attempts)
    records: list[dict[str, Any]] = []
    solved: list[int] = []
    for place, task in enumerate(problems):
        mine = grades[place * config.samples : (place + 1) * config.samples]
        solved.append(sum(one.passed for one in mine))
        records.append(
            {
                "task": task.task_id,
                "difficulty": task.difficulty,
                "accuracy": solved[-1] / config.samples,
                "outcomes": [one.outcome for one in mine],
            }
        )
    return score(solved, config.samples), records
