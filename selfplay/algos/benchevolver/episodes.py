"""The one episode of BenchEvolver's training, as the agent-loop workers run it: a task, answered G times and judged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from selfplay.algos.benchevolver.attempts import Attempt, grade
from selfplay.algos.benchevolver.compact import wording_of
from selfplay.algos.benchevolver.config import RlConfig
from selfplay.algos.benchevolver.prompts import asked
from selfplay.algos.benchevolver.rewards import reward
from selfplay.benchmarks.code_task import CodeTask, from_record, to_record
from selfplay.engine.episode import Row, Sample, Sampler, Task
from selfplay.engine.startup import EpisodeSpec
from selfplay.runs.files import to_json, write_atomic
from selfplay.sandbox.config import JudgeConfig
from selfplay.sandbox.judge.judge import Judge

SOLVE = "solve"


def specs(rl: RlConfig, sandbox: JudgeConfig, style: str) -> list[EpisodeSpec]:
    """The episode with what its workers need, as JSON values."""
    settings = {"style": style, "group": rl.group, "max_tokens": rl.max_tokens, "sandbox": asdict(sandbox)}
    return [EpisodeSpec(SOLVE, f"{__name__}:solve", settings)]


def write_tasks(path: Path, tasks: Sequence[CodeTask]) -> None:
    """The tasks of a training phase, one a line, where the workers read them: tests are too large to be sent around."""
    write_atomic(path, "".join(to_json(to_record(task)) + "\n" for task in tasks))


def to_train_on(path: Path) -> list[Task]:
    """The engine's tasks of a file that `write_tasks` wrote."""
    found, offset = [], 0
    with path.open("rb") as lines:
        for line in lines:
            found.append(Task({"file": str(path), "offset": offset}, 1, SOLVE))
            offset += len(line)
    return found


def solve(settings: Mapping[str, Any]) -> SolveEpisode:
    return SolveEpisode(settings)


class SolveEpisode:
    """G attempts at one task."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.group, self.max_tokens = settings["group"], settings["max_tokens"]
        self.wording = wording_of(settings["style"])
        self.judge = Judge(JudgeConfig(**settings["sandbox"]))

    async def run(self, task: Mapping[str, Any], session: int, uid: str, sampler: Sampler) -> list[Row]:
        problem = await asyncio.to_thread(_read, Path(task["file"]), task["offset"])
        prompt = sampler.render(asked(self.wording, problem, self.judge.config.wall_s))
        samples = await asyncio.gather(
            *[sampler.sample(prompt, max_tokens=self.max_tokens, key=(SOLVE, i)) for i in range(self.group)]
        )
        return await asyncio.to_thread(self._rows, problem, uid, prompt, samples)

    def _rows(self, problem: CodeTask, uid: str, prompt: list[int], samples: Sequence[Sample]) -> list[Row]:
        grades = grade(self.judge, [Attempt(problem, sample.text, sample.finished) for sample in samples])
        rows = []
        for sample, one in zip(samples, grades, strict=True):
            record = {"task": problem.task_id, "verdict": one.outcome, "detail": one.detail}
            rows.append(Row.of(SOLVE, uid, prompt, sample, reward(one, sample.finished), record))
        return rows


def _read(path: Path, offset: int) -> CodeTask:
    with path.open("rb") as lines:
        lines.seek(offset)
        return from_record(json.loads(lines.readline()))
