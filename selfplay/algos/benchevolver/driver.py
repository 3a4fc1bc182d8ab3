"""BenchEvolver's outer loop (arXiv 2606.01286): evolve what is solved every time, then train on what came of it.

    warm up -> evaluate -> rounds x [search -> train on each mixture, from the same start -> evaluate]

Of the mixtures the last one's policy goes on. A search is continued from its log of calls, training from checkpoints.
Without a policy among the roles, and with `rl.steps=0`, or in a replay, no engine is started.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from selfplay.algos.benchevolver import micro
from selfplay.algos.benchevolver.compact import wording_of
from selfplay.algos.benchevolver.config import BenchEvolverConfig
from selfplay.algos.benchevolver.data import EvolverData, load_data
from selfplay.algos.benchevolver.episodes import specs, to_train_on, write_tasks
from selfplay.algos.benchevolver.evaluation import evaluate
from selfplay.algos.benchevolver.evolve import Lineage
from selfplay.algos.benchevolver.mixtures import batch_of, clear_of, mixture
from selfplay.algos.benchevolver.models import ChatModel
from selfplay.algos.benchevolver.policy_model import PolicyModel
from selfplay.algos.benchevolver.prompts import asked
from selfplay.algos.benchevolver.rewards import advantages, metrics
from selfplay.algos.benchevolver.search import Search
from selfplay.algos.benchevolver.state import Position, Stage
from selfplay.algos.runtime import Runtime, conclude
from selfplay.algos.step_metrics import engine_metrics, readable
from selfplay.algos.supervised import Pair, encode, warm_start
from selfplay.algos.training_run import TrainingRun
from selfplay.backbones.cache import corpus_file
from selfplay.benchmarks.code_task import CodeTask, from_record
from selfplay.config.errors import ConfigError
from selfplay.config.schema import Config
from selfplay.engine.episode import Sampler
from selfplay.engine.session import StepResult
from selfplay.objectives.centred import centred
from selfplay.runs.files import read_jsonl, to_json, write_atomic
from selfplay.runs.loggers import MetricLoggers
from selfplay.runs.rundir import RunDir
from selfplay.runs.summary import EvalScore
from selfplay.sandbox.judge.judge import Judge
from selfplay.sandbox.python.result import SandboxError

log = logging.getLogger(__name__)


def run(config: Config, run_dir: RunDir) -> int:
    """Train; returns the exit code. Raises ConfigError for data or a sandbox that cannot be used."""
    data = load_data(config.algo)
    try:
        judge = Judge(config.sandbox)
    except SandboxError as error:
        raise ConfigError(str(error)) from error
    try:
        with Runtime(config, run_dir) as runtime:
            loop = BenchEvolverRun(config, run_dir, runtime, data, judge)
            return conclude(runtime, loop, loop.go)
    finally:
        judge.close()


class BenchEvolverRun(TrainingRun):
    """The state of a run, and its stages."""

    position: Position
    loggers: MetricLoggers

    def __init__(self, config: Config, run_dir: RunDir, runtime: Runtime, data: EvolverData, judge: Judge) -> None:
        super().__init__(config, run_dir, runtime)
        self.data, self.judge = data, judge
        self.algo: BenchEvolverConfig = config.algo
        self.wording = wording_of(config.backbone.prompts)
        self.search = Search(self.algo, run_dir.path, judge, self.wording, config.seed)
        self.position = Position()
        self.engine_runs = False

    def go(self) -> str:
        """The whole run; why it ended early, if it did."""
        stages: dict[Stage, Callable[[], None]] = {
            Stage.WARMUP: self.warm_up,
            Stage.BEFORE: self.evaluate_before,
            Stage.SEARCH: self.evolve,
            Stage.TRAIN: self.train,
            Stage.CLOSE: self.close_round,
        }
        if self.algo.needs_policy:
            self.start()
        else:
            self.position.stage = Stage.SEARCH
        settings = {"algo": self.algo.name, "seed": self.config.seed}
        with MetricLoggers(self.config.logging, self.run_dir.path, settings, self.position.step + 1) as self.loggers:
            while self.position.stage is not Stage.END:
                stages[self.position.stage]()
        self.search.close()
        if self.runtime.summary.before and self.runtime.summary.after:
            self.count_gain("accuracy")
        return "; ".join(row["message"] for row in self.position.rounds if row["message"])

    # ---------------------------------------------------------------- start and resume

    def start(self) -> None:
        """Build the backbone, bring up the engine, and continue from the newest checkpoint."""
        from selfplay.engine.policy import PolicySpec

        rl, backbone = self.algo.rl, self.config.backbone
        if backbone.kind == "tiny" and not backbone.corpus:
            backbone = replace(backbone, corpus=corpus_file(micro.corpus()))
        policy = PolicySpec(
            model_path=self.prepare_backbone(backbone),
            trust_remote_code=backbone.trust_remote_code,
            max_prompt=self.algo.max_prompt_tokens,
            max_response=self.algo.max_response(),
            top_p=self.algo.top_p,
            clip_ratio=rl.clip,
            grad_clip=rl.grad_clip,
            update_epochs=rl.update_epochs,
            weight_decay=rl.weight_decay,
            kl_coef=rl.kl_coef,
            lora_rank=rl.lora_rank,
            lora_alpha=rl.lora_alpha,
        )
        self.session = self.runtime.start(policy, specs(rl, self.config.sandbox, self.config.backbone.prompts))
        self.engine_runs = True
        for task in self.data.heldout:
            if not self._fits(task):
                limit = self.algo.max_prompt_tokens
                raise ConfigError(f"algo.max_prompt_tokens: {limit} is not allowed; {task.task_id!r} takes more")
        checkpoint = self.store.latest()
        position = self.rewind(checkpoint)
        if checkpoint is None or position is None:
            return
        self.position = place = Position.from_dict(position)
        if place.stage is not Stage.WARMUP:
            self._hold_on_to_start()
        self.session.load(checkpoint.path / "actor", place.step + 1)
        self.progress.note(f"continuing in round {place.round} ({place.stage}, {place.done} done)")

    def save(self) -> None:
        """Commit a checkpoint; a search alone needs none, its log is all there is."""
        if self.engine_runs:
            self.commit()

    def _enter(self, stage: Stage) -> None:
        self.position.stage, self.position.done = stage, 0
        self.save()

    def _weights(self, number: int) -> Path:
        """The state that a round starts from; that of round 1 is the warmed-up model."""
        return self.run_dir.path / "policies" / f"round_{number:03d}"

    def _hold_on_to_start(self) -> None:
        """The KL term's reference is what the run starts from."""
        if self.algo.rl.kl_coef > 0:
            self.session.load(self._weights(1))
            self.session.anchor_reference()

    # ---------------------------------------------------------------- before the rounds

    def warm_up(self) -> None:
        """Supervised steps on demonstrations of every role, if any."""
        started, rl = time.monotonic(), self.algo.rl

        def pairs() -> list[Pair]:
            return encode(self.session, self.data.demonstrations())

        optim = {"weight_decay": rl.weight_decay, "grad_clip": rl.grad_clip, "lora_rank": rl.lora_rank}
        warm_start(self, self.algo.warmup, self.position, self.data.key, pairs, optim)
        self.session.reset_optimizer()
        self.session.reseed(self.config.seed)
        self.session.sync()
        self.session.save(self._weights(1))
        self._hold_on_to_start()
        self.runtime.add_time("warm-up", time.monotonic() - started)
        self._enter(Stage.BEFORE)

    def evaluate_before(self) -> None:
        self.runtime.summary.before = self._evaluate("before")
        self._enter(Stage.SEARCH)

    # ---------------------------------------------------------------- one round

    def evolve(self) -> None:
        """The search, with the policy as it is at the start of the round in the roles that are its."""
        started, place = time.monotonic(), self.position
        self.progress.phase(f"round {place.round}: search", 0, self.algo.evolution.steps)
        seeds = [*self.data.seeds, *(task for number in range(1, place.round) for task in self._evolved(number))]
        evaluation = {"heldout": [task.statement for task in self.data.heldout]}
        work = partial(self.search.run, place.round, seeds, evaluation, on_step=self._show_step)
        with self.runtime.heartbeat.phase("search"):
            if self.engine_runs:
                name = f"policy-{self.session.digest()[0]['weights'][:16]}"
                beat = partial(self.runtime.heartbeat.beat, "search")

                async def with_policy(sampler: Sampler) -> dict[str, Any]:
                    model: ChatModel = PolicyModel(name, sampler, self.algo.max_prompt_tokens, beat)
                    return await work(policy=model)

                (row,) = self.session.run_all(
                    [with_policy], seed_key=("search", place.round), temperature=1.0, top_p=self.algo.top_p, at_once=1
                )
            else:
                row = asyncio.run(work(policy=None))
        seconds = time.monotonic() - started
        place.row = {"round": place.round, "seconds": {"search": round(seconds, 2)}, **row, "mixtures": {}}
        self.runtime.add_time("search", seconds)
        self.progress.note(f"search: {row['accepted']} tasks accepted of {row['attempts']} attempts")
        if self.algo.rl.steps and not self.algo.replay:
            place.mixture = 0
            self._enter(Stage.TRAIN)
        else:
            self._enter(Stage.CLOSE)

    def _show_step(self, step: int, lineages: Sequence[Lineage]) -> None:
        self.progress.step(step, accepted=sum(len(lineage.evolved) for lineage in lineages))
        self.runtime.between_steps()

    def _evolved(self, number: int) -> list[CodeTask]:
        return [from_record(record) for record in read_jsonl(self.search.round_folder(number) / "tasks.jsonl")]

    def train(self) -> None:
        """Every mixture from the round's start, for as many steps, and its evaluation."""
        place, rl = self.position, self.algo.rl
        while place.mixture < len(rl.mixtures):
            name = rl.mixtures[place.mixture]
            if place.done == 0:
                self.session.load(self._weights(place.round), place.step + 1)
                self.session.reset_optimizer()
            tasks = self._mixture(name)
            if tasks:
                self._train_on(name, tasks)
            result = place.row["mixtures"].setdefault(name, {"tasks": len(tasks)})
            final = place.round == self.algo.rounds and place.mixture == len(rl.mixtures) - 1
            held_out = self._evaluate("after" if final else f"round_{place.round:03d}_{name}")
            result |= {"accuracy": held_out.pass_at_1, "interval": held_out.interval}
            if final:
                self.runtime.summary.after = held_out
            place.mixture, place.done = place.mixture + 1, 0
            self.save()
        self._enter(Stage.CLOSE)

    def _mixture(self, name: str) -> list[CodeTask]:
        """The tasks of a mixture, clear of the evaluation set; written where the workers read them."""
        evolved = [task for number in range(1, self.position.round + 1) for task in self._evolved(number)]
        if self.algo.rl.drop_contaminated:
            evolved = clear_of(evolved, self.data.heldout)
        tasks = [task for task in mixture(name, self.data.seeds, evolved) if self._fits(task)]
        write_tasks(self._task_file(name), tasks)
        return tasks

    def _task_file(self, name: str) -> Path:
        return self.run_dir.pool / f"round_{self.position.round:03d}_{name}.jsonl"

    def _train_on(self, name: str, tasks: Sequence[CodeTask]) -> None:
        place, rl = self.position, self.algo.rl
        everything = to_train_on(self._task_file(name))
        self.progress.phase(f"round {place.round}: train on {name}", place.done, rl.steps)
        sums = place.row["mixtures"].setdefault(name, {"tasks": len(tasks), "rewards": [], "tokens": []})
        while place.done < rl.steps:
            self.runtime.between_steps()
            batch = [everything[i] for i in batch_of(len(everything), place.done, rl.problems, self.config.seed)]
            self.session.set_step(place.step + 1)
            result = self.session.step(batch, advantages, rl.lr)
            values = metrics(result.rows)
            place.step, place.done = place.step + 1, place.done + 1
            sums["rewards"].append(round(values["reward"], 4))
            sums["tokens"].append(round(values["response_tokens"], 1))
            self._record(name, result, values)
            self.progress.step(place.done, reward=values["reward"], solved=values["solved"])

    def close_round(self) -> None:
        """Keep the policy that goes on, and the round's row."""
        place = self.position
        place.rounds.append(place.row)
        place.row = {}
        self.runtime.summary.iterations = place.rounds
        if place.round == self.algo.rounds:
            if self.engine_runs and self.algo.rl.steps:
                self.export_model(self.run_dir.path / "policies" / "final")
            self._enter(Stage.END)
            return
        place.round += 1
        if self.engine_runs:
            self.session.save(self._weights(place.round))
        self._enter(Stage.SEARCH)
        self.runtime.iteration_done()

    # ---------------------------------------------------------------- parts

    def _fits(self, task: CodeTask) -> bool:
        """Whether a solver's prompt has room."""
        prompt = self.session.render(asked(self.wording, task, self.judge.config.wall_s))
        return len(prompt) <= self.algo.max_prompt_tokens

    def _record(self, name: str, result: StepResult, values: dict[str, float]) -> None:
        """Write a step's line, and commit it."""
        place, summary = self.position, self.runtime.summary
        tokens = sum(row["tokens"] for row in result.rows)
        place.tokens += tokens
        line = {"phase": name, "round": place.round, "rows": len(result.rows), "tokens": tokens, **values}
        line |= engine_metrics(result)
        self.metrics.append(place.step, line)
        self.loggers.log(place.step, {f"{name}/{key}": value for key, value in line.items()})
        every = self.config.logging.rollouts_every
        if every and place.step % every == 0:
            credit = centred([row["reward"] for row in result.rows], [row["group"] for row in result.rows])
            self.rollouts.write(place.step, readable(result, credit.tolist()))
        for phase, seconds in result.timing_s.items():
            if phase != "step":
                self.runtime.add_time(phase, seconds)
        summary.steps = place.step
        summary.throughput = {"tokens_per_step": round(place.tokens / place.step, 1)}
        if place.step % self.config.cluster.checkpoint.every == 0:
            self.save()
        self.runtime.write_summary()

    def _evaluate(self, when: str) -> EvalScore:
        """Held-out accuracy of the session's policy; the draws are the same at every call."""
        started = time.monotonic()
        self.progress.phase(f"evaluation ({when})")
        with self.runtime.heartbeat.phase("evaluate"):
            found, records = evaluate(self.session, self.judge, self.wording, self.data.heldout, self.algo)
        lines = "".join(to_json(record) + "\n" for record in records)
        write_atomic(self.run_dir.rollouts / f"evaluation_{when}.jsonl", lines)
        low, high = found.interval
        self.progress.note(f"accuracy {when}: {found.pass_at_1:.1%} [{low:.1%}, {high:.1%}] (n={found.n})")
        self.runtime.add_time("evaluate", time.monotonic() - started)
        return found
