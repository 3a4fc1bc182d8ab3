"""AnchorLoop's outer loop (arXiv 2610.09856, section 3): two policies on one set of workers, and a frozen third.

    warm up -> evaluate -> iterations x [refresh the anchor -> curriculum: GRPO on tasks put to the frozen model
               -> pool -> anchor rollouts, cached -> executor: ADPO with a cross-reference -> evaluate]

Every stage is a method that starts from wherever `position` says and leaves it at the next one, so a run that is killed
and resumed goes through the same steps as an unbroken one.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from selfplay.algos.anchorloop import micro
from selfplay.algos.anchorloop.anchor_cache import AnchorCache, Answers
from selfplay.algos.anchorloop.config import CURRICULUM, EXECUTOR, AnchorLoopConfig
from selfplay.algos.anchorloop.data import LoopData, load_data
from selfplay.algos.anchorloop.episodes import Tools, specs
from selfplay.algos.anchorloop.pool import admit, in_batches, leaks
from selfplay.algos.anchorloop.prompts import executor_messages
from selfplay.algos.anchorloop.rewards import (
    CurriculumAdvantages,
    curriculum_metrics,
    executor_advantages,
    executor_metrics,
)
from selfplay.algos.anchorloop.sampling import DriverSampling
from selfplay.algos.anchorloop.state import Policies, Position, Stage
from selfplay.algos.anchorloop.warmup import warm_up
from selfplay.algos.runtime import Runtime, conclude
from selfplay.algos.step_metrics import engine_metrics, readable
from selfplay.algos.training_run import TrainingRun
from selfplay.backbones.cache import corpus_file
from selfplay.config.errors import ConfigError
from selfplay.config.schema import Config
from selfplay.curriculum.contamination import Contamination
from selfplay.engine.episode import Task
from selfplay.engine.session import StepResult
from selfplay.objectives.voting import resolve
from selfplay.runs.files import read_jsonl, to_json, write_atomic
from selfplay.runs.loggers import MetricLoggers
from selfplay.runs.rundir import RunDir
from selfplay.runs.summary import EvalScore
from selfplay.sandbox.python.result import SandboxError

log = logging.getLogger(__name__)


def run(config: Config, run_dir: RunDir) -> int:
    """Train; returns the exit code. Raises ConfigError for data or a sandbox that cannot be used."""
    data = load_data(config.algo)
    try:
        tools = Tools(config.sandbox)
    except SandboxError as error:
        raise ConfigError(str(error)) from error
    try:
        with Runtime(config, run_dir) as runtime:
            loop = AnchorLoopRun(config, run_dir, runtime, data, tools)
            return conclude(runtime, loop, loop.go)
    finally:
        tools.close()


class AnchorLoopRun(TrainingRun):
    """The state of a run, and its stages."""

    position: Position
    sampling: DriverSampling
    loggers: MetricLoggers

    def __init__(self, config: Config, run_dir: RunDir, runtime: Runtime, data: LoopData, tools: Tools) -> None:
        super().__init__(config, run_dir, runtime)
        self.data, self.tools = data, tools
        self.algo: AnchorLoopConfig = config.algo
        self.style: str = config.backbone.prompts
        self.policies = Policies(run_dir.path / "policies")
        self.cache = AnchorCache(run_dir.path / "anchor" / "answers.jsonl")
        self.position = Position()

    def go(self) -> str:
        """The whole run."""
        stages: dict[Stage, Callable[[], None]] = {
            Stage.WARMUP: self.warm_up,
            Stage.BEFORE: self.evaluate_before,
            Stage.REFRESH: self.refresh,
            Stage.CURRICULUM: self.train_curriculum,
            Stage.POOL: self.make_pool,
            Stage.ANCHOR: self.sample_anchor,
            Stage.EXECUTOR: self.train_executor,
            Stage.CLOSE: self.close_iteration,
        }
        self.start()
        settings = {"algo": self.algo.name, "seed": self.config.seed}
        with MetricLoggers(self.config.logging, self.run_dir.path, settings, self.position.step + 1) as self.loggers:
            while self.position.stage is not Stage.END:
                stages[self.position.stage]()
        self.evaluate_after()
        return ""

    # ---------------------------------------------------------------- start and resume

    def start(self) -> None:
        """Build the backbone, bring up the engine with its frozen group, and continue from the newest checkpoint."""
        from selfplay.engine.policy import PolicySpec

        algo, backbone = self.algo, self.config.backbone
        if backbone.kind == "tiny" and not backbone.corpus:
            backbone = replace(backbone, corpus=corpus_file(micro.corpus()))
        policy = PolicySpec(
            model_path=self.prepare_backbone(backbone),
            trust_remote_code=self.config.backbone.trust_remote_code,
            max_prompt=algo.max_prompt_tokens,
            max_response=algo.max_response(),
            temperature=algo.temperature,
            top_p=algo.top_p,
            clip_ratio=algo.executor.adpo.clip,
            grad_clip=algo.optim.grad_clip,
            update_epochs=algo.optim.update_epochs,
            weight_decay=algo.optim.weight_decay,
            kl_coef=algo.optim.kl_coef,
            frozen_model=self.backbone,
        )
        self.session = self.runtime.start(policy, specs(algo, self.config.sandbox, self.style))
        self.sampling = DriverSampling(self.session, algo, self.style, self.tools)
        self.sampling.check_lengths(self.data.heldout)
        self._continue()

    def _continue(self) -> None:
        checkpoint = self.store.latest()
        position = self.rewind(checkpoint)
        if checkpoint is None or position is None:
            return
        self.position = Position.from_dict(position)
        if self.position.stage is not Stage.WARMUP:
            self._hold_on_to_base()
            self.session.refresh_frozen(self.policies.path(EXECUTOR, self.position.anchor))
        self.session.load(checkpoint.path / "actor", self.position.step + 1)
        place = self.position
        self.progress.note(f"continuing in iteration {place.iteration} ({place.stage}, {place.done} done)")

    def _enter(self, stage: Stage) -> None:
        self.position.stage, self.position.done = stage, 0
        self.save()

    def _hold_on_to_base(self) -> None:
        """The KL term's reference is what both roles start from."""
        if self.algo.optim.kl_coef > 0 and self.algo.warmup.steps:
            self.session.load(self.policies.path(EXECUTOR, 0) / "state")
            self.session.anchor_reference()

    # ---------------------------------------------------------------- before the iterations

    def warm_up(self) -> None:
        """Supervised steps on demonstrations of both roles, if any; then both policies are what they start from."""
        started = time.monotonic()
        warm_up(self)
        self.session.reset_optimizer()
        self.session.reseed(self.config.seed)
        self.session.sync()
        self.policies.keep(self.session, EXECUTOR, 0)
        self._hold_on_to_base()
        self.runtime.add_time("warm-up", time.monotonic() - started)
        self._enter(Stage.BEFORE)

    def evaluate_before(self) -> None:
        self.runtime.summary.before = self._evaluate("before")[0]
        self._enter(Stage.REFRESH)

    # ---------------------------------------------------------------- one iteration

    def refresh(self) -> None:
        """The anchor becomes the executor as the last iteration left it, if it is due."""
        place, every = self.position, self.algo.anchor.refresh_every
        place.seconds, place.sums = {}, {}
        if every and (place.iteration - 1) % every == 0:
            place.anchor = place.iteration - 1
        self.session.refresh_frozen(self.policies.path(EXECUTOR, place.anchor))
        self.policies.load(self.session, CURRICULUM, place.iteration - 1)
        self._enter(Stage.CURRICULUM)

    def train_curriculum(self) -> None:
        """GRPO by the anchor-referenced reward."""
        config, advantages = self.algo.curriculum, CurriculumAdvantages(self.algo.curriculum)
        self.progress.phase(self._name("curriculum"), self.position.done, config.steps)
        while self.position.done < config.steps:
            tasks = [Task({}, config.tasks_per_prompt, CURRICULUM)] * config.prompts
            result = self._step(tasks, advantages, self.algo.optim.curriculum_lr)
            values = curriculum_metrics(result.rows, advantages.rewards)
            self._record(Stage.CURRICULUM, result, values, advantages.values)
            self.progress.step(self.position.done, reward=values["reward"], valid=values["format_valid"])
        self.policies.keep(self.session, CURRICULUM, self.position.iteration)
        self._enter(Stage.POOL)

    def make_pool(self) -> None:
        """The trained curriculum's tasks, written with their manifest."""
        started, place, config = time.monotonic(), self.position, self.algo.pool
        self.progress.phase(self._name("pool"))
        with self.runtime.heartbeat.phase("pool"):
            candidates = self.sampling.tasks(place.iteration, config.tasks)
            contamination = Contamination([task.question for task in self.data.heldout], config.ngram)
            kept, manifest = admit(candidates, contamination, config.drop_contaminated)
            if config.filter == "consistency":
                kept = self._in_band(kept, manifest)
        manifest["leaks"] = leaks(
            [self.sampling.decode(self.sampling.asked(question)) for question in kept],
            kept,
            lambda question: self.sampling.decode(self.session.render(executor_messages(question, self.style))),
        )
        write_atomic(self._file("tasks"), "".join(to_json({"question": question}) + "\n" for question in kept))
        write_atomic(self._file("manifest", "json"), to_json(manifest, indent=1) + "\n")
        self.progress.note(f"pool: {len(kept)} of {manifest['sampled']} tasks kept")
        self._count_seconds(Stage.POOL, started)
        self._enter(Stage.ANCHOR)

    def _in_band(self, questions: Sequence[str], manifest: dict[str, Any]) -> list[str]:
        """Agent0's filter: tasks on which the executor is neither sure nor lost."""
        low, high = self.algo.pool.band
        groups = self._anchor_answers(questions, "filter")
        shares = [resolve(self.tools.judge.classes(answers)).share for answers in groups]
        kept = [question for question, share in zip(questions, shares, strict=True) if low <= share <= high]
        manifest["rejected"]["outside the band"], manifest["kept"] = len(questions) - len(kept), len(kept)
        return kept

    def sample_anchor(self) -> None:
        """The frozen model's groups for every batch of the executor's phase, unless each step samples its own."""
        started = time.monotonic()
        if self.algo.uses_anchor and self.algo.anchor.cache:
            self.progress.phase(self._name("anchor rollouts"))
            with self.runtime.heartbeat.phase("anchor"):
                for number, questions in enumerate(self._batches()):
                    self._anchor_answers(questions, str(number))
                    self.runtime.between_steps()
        self._count_seconds(Stage.ANCHOR, started)
        self.progress.note(f"anchor: {self.cache.hit_rate():.0%} of the groups were there already")
        self.policies.load(self.session, EXECUTOR, self.position.iteration - 1)
        self._enter(Stage.EXECUTOR)

    def _anchor_answers(self, questions: Sequence[str], batch: str, cached: bool = True) -> list[Answers]:
        weights, name = self.policies.digest(self.position.anchor), f"{self.position.iteration}.{batch}"
        return self.sampling.anchor(questions, name, weights, self.cache if cached else None)

    def train_executor(self) -> None:
        """ADPO: every batch of the pool `inner_steps` times, each with fresh current rollouts."""
        inner, batches = self.algo.executor.inner_steps, self._batches()
        total = len(batches) * inner
        self.progress.phase(self._name("executor"), self.position.done, total)
        while self.position.done < total:
            number, again = divmod(self.position.done, inner)
            questions = batches[number]
            answers: list[Answers] = [[] for _ in questions]
            if self.algo.uses_anchor:
                started, cached = time.monotonic(), self.algo.anchor.cache
                answers = self._anchor_answers(questions, str(number) if cached else f"{number}.{again}", cached)
                self._count_seconds(Stage.ANCHOR, started)
            tasks = [
                Task({"question": question, "anchor": anchor}, 1, EXECUTOR)
                for question, anchor in zip(questions, answers, strict=True)
            ]
            result = self._step(tasks, executor_advantages, self.algo.optim.lr)
            values = executor_metrics(result.rows)
            values["anchor/hit_rate"] = self.cache.hit_rate()
            self._record(Stage.EXECUTOR, result, values, [row["advantage"] for row in result.rows])
            self.progress.step(self.position.done, agree=values["reward"], tools=values["tool_calls"])
        self.policies.keep(self.session, EXECUTOR, self.position.iteration)
        self._enter(Stage.CLOSE)

    def close_iteration(self) -> None:
        """The iteration's row: what each phase brought, what the anchor cost, and the held-out accuracy."""
        place = self.position
        row: dict[str, Any] = {"iteration": place.iteration, "anchor_of": place.anchor}  # 0: the backbone
        if self.algo.eval.every_iteration and place.iteration < self.algo.iterations:
            score, tool_calls = self._evaluate(f"iteration_{place.iteration:03d}")
            row |= {"accuracy": score.pass_at_1, "interval": score.interval, "heldout_tool_calls": tool_calls}
        row |= place.means()
        row["pool"] = json.loads(self._file("manifest", "json").read_text(encoding="utf-8"))
        place.iterations.append(row)
        self.runtime.summary.iterations = place.iterations
        self.policies.prune(place.iteration, place.anchor)
        if place.iteration == self.algo.iterations:
            self._enter(Stage.END)
            return
        place.iteration += 1
        self._enter(Stage.REFRESH)
        self.runtime.iteration_done()

    def evaluate_after(self) -> None:
        self.runtime.summary.after, _ = self._evaluate("after")
        self.count_gain("accuracy")

    # ---------------------------------------------------------------- parts

    def _step(self, tasks: Sequence[Task], advantages: Any, lr: float) -> StepResult:
        self.runtime.between_steps()
        self.session.set_step(self.position.step + 1)
        return self.session.step(tasks, advantages, lr)

    def _record(self, stage: Stage, result: StepResult, values: dict[str, float], advantages: Sequence[float]) -> None:
        """Count a step, write its line, and commit it."""
        place, summary = self.position, self.runtime.summary
        place.count(stage, values, result.timing_s["step"])
        tokens = sum(row["tokens"] for row in result.rows)
        place.tokens += tokens
        line = {"phase": str(stage), "iteration": place.iteration, "rows": len(result.rows), "tokens": tokens, **values}
        line |= engine_metrics(result)
        self.metrics.append(place.step, line)
        self.loggers.log(place.step, {f"{stage}/{name}": value for name, value in line.items()})
        every = self.config.logging.rollouts_every
        if every and place.step % every == 0:
            self.rollouts.write(place.step, readable(result, advantages))
        for phase, seconds in result.timing_s.items():
            if phase != "step":
                self.runtime.add_time(phase, seconds)
        summary.steps = place.step
        summary.throughput = {"tokens_per_step": round(place.tokens / place.step, 1)}
        if place.step % self.config.cluster.checkpoint.every == 0:
            self.save()
        self.runtime.write_summary()

    def _evaluate(self, when: str) -> tuple[EvalScore, float]:
        """Held-out accuracy of the session's policy, which is the executor; and its tool calls a rollout."""
        started = time.monotonic()
        self.progress.phase(f"evaluation ({when})")
        with self.runtime.heartbeat.phase("evaluate"):
            result = self.sampling.evaluate(self.data.heldout)
        lines = "".join(to_json(record) + "\n" for record in result.records)
        write_atomic(self.run_dir.rollouts / f"evaluation_{when}.jsonl", lines)
        low, high = result.score.interval
        self.progress.note(
            f"accuracy {when}: {result.score.pass_at_1:.1%} [{low:.1%}, {high:.1%}] (n={result.score.n})"
        )
        self.runtime.add_time("evaluate", time.monotonic() - started)
        return result.score, result.tool_calls

    def _batches(self) -> list[list[str]]:
        """The pool, as the executor's phase takes it."""
        questions = [record["question"] for record in read_jsonl(self._file("tasks"))]
        return in_batches(questions, self.algo.executor.tasks_per_step, self.algo.executor.batches)

    def _file(self, what: str, kind: str = "jsonl") -> Path:
        return self.run_dir.pool / f"{what}_{self.position.iteration:03d}.{kind}"

    def _name(self, what: str) -> str:
        return f"iteration {self.position.iteration}: {what}"

    def _count_seconds(self, stage: Stage, started: float) -> None:
        seconds = time.monotonic() - started
        self.position.count_seconds(stage, seconds)
        self.runtime.add_time(str(stage), seconds)
