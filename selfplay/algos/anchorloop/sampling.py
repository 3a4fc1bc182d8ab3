"""What the driver samples itself: the pool's tasks, the anchor's groups, and the held-out evaluation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from selfplay.algos.anchorloop.anchor_cache import AnchorCache, AnchorKey, Answers
from selfplay.algos.anchorloop.config import AnchorLoopConfig, RolloutSizes
from selfplay.algos.anchorloop.data import HeldOut
from selfplay.algos.anchorloop.episodes import TOO_LONG, Tools, read_task
from selfplay.algos.anchorloop.pool import Candidate
from selfplay.algos.anchorloop.prompts import curriculum_messages, executor_messages, final_answer
from selfplay.algos.anchorloop.tool_use import Trajectory, respond
from selfplay.algos.scoring import score
from selfplay.config.errors import ConfigError
from selfplay.engine.episode import Sampler
from selfplay.engine.session import Session
from selfplay.runs.summary import EvalScore

Work = Callable[[Sampler], Any]


@dataclass(frozen=True)
class Evaluation:
    score: EvalScore
    tool_calls: float  # a rollout
    records: list[dict[str, Any]]


class DriverSampling:
    """Sampling outside of the training steps; `tools` are the driver's own."""

    def __init__(self, session: Session, algo: AnchorLoopConfig, style: str, tools: Tools) -> None:
        self.session, self.algo, self.style, self.tools = session, algo, style, tools

    def tasks(self, iteration: int, n: int) -> list[Candidate]:
        """`n` tasks of the session's policy, which is the curriculum agent."""
        prompt = self.session.render(curriculum_messages(self.style))
        work = [self._rollout(prompt, self.algo.curriculum.rollouts) for _ in range(n)]
        written = self._run(work, ("pool", iteration))
        return [self._candidate(one) for one in written]

    def _candidate(self, written: Trajectory) -> Candidate:
        question, reason = read_task(written, self.tools.judge)
        if not reason and len(self.asked(question)) > self.algo.max_prompt_tokens:
            reason = TOO_LONG
        return Candidate(question, reason)

    def check_lengths(self, tasks: Sequence[HeldOut]) -> None:
        """Raises ConfigError for a held-out task whose prompt is too long."""
        limit, length = self.algo.max_prompt_tokens, max(len(self.asked(task.question)) for task in tasks)
        if length > limit:
            raise ConfigError(f"algo.max_prompt_tokens: {limit} is not allowed; a held-out task takes {length}")

    def asked(self, question: str) -> list[int]:
        """The executor's prompt."""
        return self.session.render(executor_messages(question, self.style))

    def decode(self, token_ids: Sequence[int]) -> str:
        """Token ids as text, marks included."""
        return str(self.session.tokenizer.decode(list(token_ids)))

    def anchor(self, questions: Sequence[str], batch: str, weights: str, cache: AnchorCache | None) -> list[Answers]:
        """G answers of the frozen model to each question, as written; what `cache` has is not sampled again.

        Every group is kept as soon as it is complete, so a killed run loses at most the groups under way.
        """
        sampling = {
            "group": self.algo.executor.group,
            "temperature": self.algo.temperature,
            "top_p": self.algo.top_p,
            "style": self.style,
            "seed": self.session.seed,
            **asdict(self.algo.executor.rollouts),
        }
        keys = [AnchorKey(weights, question, sampling, f"{batch}.{i}") for i, question in enumerate(questions)]
        found = [None if cache is None else cache.get(key) for key in keys]
        missing = [i for i, answers in enumerate(found) if answers is None]

        def keep(place: int, answers: Answers) -> None:
            found[missing[place]] = answers
            if cache is not None:
                cache.put(keys[missing[place]], answers)

        work = [self._group(self.asked(questions[i])) for i in missing]
        if work:
            names = [keys[i].digest() for i in missing]  # a group's draws do not depend on which others are missing
            self._run(work, ("anchor",), keep, at_once=max(1, 256 // self.algo.executor.group), names=names)
        return [answers for answers in found if answers is not None]

    def _group(self, prompt: list[int]) -> Work:
        """One question's G rollouts of the frozen model."""
        sizes, group = self.algo.executor.rollouts, self.algo.executor.group

        async def work(sampler: Sampler) -> Answers:
            rollouts = await asyncio.gather(
                *[respond(sampler, prompt, sizes, self.tools.python, key=(i,), frozen=True) for i in range(group)]
            )
            return [final_answer(one.text) if one.finished else None for one in rollouts]

        return work

    def evaluate(self, tasks: Sequence[HeldOut]) -> Evaluation:
        """The session's policy on tasks with known answers; the draws are the same at every call."""
        n = self.algo.eval.samples
        prompts = [self.asked(task.question) for task in tasks]
        work = [self._rollout(prompt, self.algo.executor.rollouts) for prompt in prompts for _ in range(n)]
        rollouts = self._run(work, ("evaluation",), temperature=self.algo.eval.temperature)
        records, counts = [], []
        for i, task in enumerate(tasks):
            mine = rollouts[i * n : (i + 1) * n]
            answers = [final_answer(one.text) if one.finished else None for one in mine]
            right = [answer is not None and self._same(answer, task.answer) for answer in answers]
            counts.append(sum(right))
            calls = sum(one.calls for one in mine) / n
            records.append({**asdict(task), "accuracy": sum(right) / n, "answers": answers, "tool_calls": calls})
        return Evaluation(score(counts, n), sum(r["tool_calls"] for r in records) / len(records), records)

    def _same(self, answer: str, truth: str) -> bool:
        return self.tools.judge.is_number(answer) and self.tools.judge.equal(answer, truth)

    def _rollout(self, prompt: list[int], sizes: RolloutSizes) -> Work:
        def work(sampler: Sampler) -> Any:
            return respond(sampler, prompt, sizes, self.tools.python, key=())

        return work

    def _run(
        self,
        work: Sequence[Work],
        seed_key: Sequence[Any],
        on_done: Callable[[int, Any], None] | None = None,
        temperature: float | None = None,
        at_once: int = 256,
        names: Sequence[str] | None = None,
    ) -> list[Any]:
        return self.session.run_all(
            work,
            seed_key=seed_key,
            temperature=self.algo.temperature if temperature is None else temperature,
            top_p=self.algo.top_p,
            on_done=on_done,
            at_once=at_once,
            names=names,
        )
