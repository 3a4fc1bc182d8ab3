"""The two episodes of AnchorLoop, as the agent-loop workers run them.

curriculum: the policy writes one task; the frozen model answers it in two independent groups of G. One row.
executor:   the policy answers one task G times; the group is resolved and scored at once. G rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from selfplay.algos.anchorloop.config import CURRICULUM, EXECUTOR, AnchorLoopConfig, RolloutSizes
from selfplay.algos.anchorloop.prompts import curriculum_messages, executor_messages, final_answer, read_proposal
from selfplay.algos.anchorloop.tool_use import Trajectory, respond
from selfplay.engine.episode import Row, Sampler
from selfplay.engine.startup import EpisodeSpec
from selfplay.objectives.cross_reference import AdpoConfig, structure, task_advantages
from selfplay.objectives.voting import Resolution, resolve
from selfplay.sandbox.answers import AnswerJudge
from selfplay.sandbox.config import PythonConfig
from selfplay.sandbox.python.pool import PythonSandbox
from selfplay.sandbox.python.result import PythonRunner

CURRENT, ANCHOR = "current", "anchor"
TOO_LONG = "a prompt that is too long"


def specs(algo: AnchorLoopConfig, sandbox: PythonConfig, style: str) -> list[EpisodeSpec]:
    """Both episodes with what their workers need, as JSON values."""
    shared = {
        "style": style,
        "max_prompt": algo.max_prompt_tokens,
        "group": algo.executor.group,
        "executor": asdict(algo.executor.rollouts),
        "sandbox": asdict(sandbox),
    }
    own = {"curriculum": asdict(algo.curriculum.rollouts), "frontier": algo.uses_frontier}
    here = "selfplay.algos.anchorloop.episodes"
    return [
        EpisodeSpec(CURRICULUM, f"{here}:curriculum", {**shared, **own}),
        EpisodeSpec(EXECUTOR, f"{here}:executor", {**shared, "adpo": asdict(algo.executor.adpo)}),
    ]


class Tools:
    """What an episode works with besides the models: one sandbox and one judge of answers a process."""

    _shared: Tools | None = None

    def __init__(self, sandbox: PythonConfig) -> None:
        self.python: PythonRunner = PythonSandbox(sandbox)
        self.judge = AnswerJudge(workers=1)

    @classmethod
    def of(cls, sandbox: Mapping[str, Any]) -> Tools:
        """This process's."""
        if cls._shared is None:
            cls._shared = cls(PythonConfig(**sandbox))
        return cls._shared

    def close(self) -> None:
        """End their processes."""
        self.python.close()
        self.judge.close()


def answers_of(group: Sequence[Trajectory], judge: AnswerJudge) -> list[str | None]:
    """The class of every rollout's answer; None for an invalid one. A rollout that was cut off has none."""
    return judge.classes([final_answer(one.text) if one.finished else None for one in group])


def curriculum(settings: Mapping[str, Any]) -> CurriculumEpisode:
    return CurriculumEpisode(settings)


def executor(settings: Mapping[str, Any]) -> ExecutorEpisode:
    return ExecutorEpisode(settings)


class CurriculumEpisode:
    """One task, and what the frozen model makes of it."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.style, self.max_prompt, self.group = settings["style"], settings["max_prompt"], settings["group"]
        self.own, self.executor = RolloutSizes(**settings["curriculum"]), RolloutSizes(**settings["executor"])
        self.frontier = bool(settings["frontier"])
        self.tools = Tools.of(settings["sandbox"])

    async def run(self, task: Mapping[str, Any], session: int, uid: str, sampler: Sampler) -> list[Row]:
        prompt = sampler.render(curriculum_messages(self.style))
        written = await respond(sampler, prompt, self.own, self.tools.python, key=(CURRICULUM,))
        question, reason = await asyncio.to_thread(read_task, written, self.tools.judge)
        asked = sampler.render(executor_messages(question, self.style)) if not reason else []
        if len(asked) > self.max_prompt:
            reason = TOO_LONG
        record: dict[str, Any] = {"question": question, "reason": reason, "calls": written.calls}
        record["verdict"] = "rejected" if reason else "task"
        if not reason:
            record |= await self._ask(sampler, asked)
        return [written.row(CURRICULUM, uid, 0.0, record)]  # the reward needs the whole batch: the driver gives it

    async def _ask(self, sampler: Sampler, asked: list[int]) -> dict[str, Any]:
        """Two independent groups of the frozen model's rollouts, resolved; the second only where it counts."""
        names = [CURRENT, ANCHOR] if self.frontier else [CURRENT]
        rollouts = await asyncio.gather(
            *[
                respond(sampler, asked, self.executor, self.tools.python, key=(name, i), frozen=True)
                for name in names
                for i in range(self.group)
            ]
        )
        classes = await asyncio.to_thread(answers_of, rollouts, self.tools.judge)
        groups = {name: classes[i * self.group : (i + 1) * self.group] for i, name in enumerate(names)}
        resolutions = {name: resolve(answers) for name, answers in groups.items()}
        return {
            "current": as_record(resolutions[CURRENT]),
            "anchor": as_record(resolutions.get(ANCHOR, Resolution(None, 0.0))),
            "tool_calls": sum(one.calls for one in rollouts[: self.group]) / self.group,
        }


class ExecutorEpisode:
    """One task, answered G times and scored by the group's vote and the anchor's."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.style, self.group = settings["style"], settings["group"]
        self.sizes, self.adpo = RolloutSizes(**settings["executor"]), AdpoConfig(**settings["adpo"])
        self.tools = Tools.of(settings["sandbox"])

    async def run(self, task: Mapping[str, Any], session: int, uid: str, sampler: Sampler) -> list[Row]:
        prompt = sampler.render(executor_messages(task["question"], self.style))
        rollouts = await asyncio.gather(
            *[respond(sampler, prompt, self.sizes, self.tools.python, key=(EXECUTOR, i)) for i in range(self.group)]
        )
        return await asyncio.to_thread(self._rows, task, uid, list(rollouts))

    def _rows(self, task: Mapping[str, Any], uid: str, rollouts: list[Trajectory]) -> list[Row]:
        # Both groups' answers are classified together, so that equal answers of the two are one class.
        current = [final_answer(one.text) if one.finished else None for one in rollouts]
        classes = self.tools.judge.classes([*current, *task["anchor"]])
        anchor = resolve(classes[self.group :]) if task["anchor"] else Resolution(None, 0.0)
        scored = task_advantages(classes[: self.group], anchor, self.adpo)
        shared = {
            "question": task["question"],
            "current": as_record(scored.resolution),
            "anchor": as_record(anchor),
            "structure": structure(scored),
            "variance": float(scored.values.var()),
        }
        rows = []
        for i, (one, answer) in enumerate(zip(rollouts, classes[: self.group], strict=True)):
            agrees = float(scored.trained and answer == scored.resolution.label)
            own = {"answer": answer, "calls": one.calls, "errors": one.errors, "advantage": float(scored.values[i])}
            own["verdict"] = "invalid" if answer is None else "agrees" if agrees else "differs"
            own["detail"] = f"answer {answer}, majority {scored.resolution.label}, anchor {anchor.label}"
            row = one.row(EXECUTOR, uid, agrees, {**shared, **own})
            row.clip_high, row.trained = scored.clip_high, scored.trained
            rows.append(row)
        return rows


def read_task(written: Trajectory, judge: AnswerJudge) -> tuple[str, str]:
    """The question of a curriculum rollout and why it is no task, if it is none. The Answer field ends here."""
    if not written.finished:
        return "", "cut off"
    proposal = read_proposal(written.text)
    if proposal.reason:
        return "", proposal.reason
    if not judge.is_number(proposal.answer):
        return "", "an answer that is no number"
    return proposal.question, ""


def as_record(found: Resolution) -> dict[str, Any]:
    return {"label": found.label, "share": found.share}


def from_record(record: Mapping[str, Any]) -> Resolution:
    """The inverse of `as_record`."""
    return Resolution(record["label"], record["share"])
