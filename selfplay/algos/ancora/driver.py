"""ANCORA's outer loop (arXiv 2604.27644, section 4): one policy proposes specifications and proves them.

    warm up -> evaluate -> steps x [select seeds -> propose, gate, solve, verify -> update -> admit] -> evaluate

`run` is the table of contents. A checkpoint holds weights, optimizer, pool and counters together, committed at once:
a run that is killed and resumed does what an unbroken one does.
"""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from typing import Any

from selfplay.algos.ancora import warmup
from selfplay.algos.ancora.advantages import Advantages
from selfplay.algos.ancora.config import AncoraConfig
from selfplay.algos.ancora.curriculum_step import take_in, task_of
from selfplay.algos.ancora.data import Data, load_data
from selfplay.algos.ancora.episode import EPISODE, FACTORY, settings_of
from selfplay.algos.ancora.evaluation import evaluate
from selfplay.algos.ancora.metrics import step_metrics
from selfplay.algos.runtime import Runtime, languages
from selfplay.config.schema import Config
from selfplay.curriculum.curriculum import Curriculum
from selfplay.engine.errors import RolloutFailed, WorkerLost
from selfplay.engine.session import EpisodeSpec, Session, StepResult
from selfplay.runs.checkpoints import CheckpointStore
from selfplay.runs.files import to_json, write_atomic
from selfplay.runs.interrupt import Interrupted
from selfplay.runs.loggers import MetricLoggers
from selfplay.runs.metrics import MetricsLog
from selfplay.runs.rollouts import Rollout, RolloutWriter
from selfplay.runs.rundir import RunDir
from selfplay.runs.summary import EvalScore, ExitCode, Summary
from selfplay.sandbox.registry import build_prover

log = logging.getLogger(__name__)

COLLAPSE_WINDOW, COLLAPSE_RATE = 20, 0.30  # section D.5: first sustained window with q_valid below the rate


def run(config: Config, run_dir: RunDir) -> int:
    """Train; returns the exit code. Raises ConfigError for data that cannot be used."""
    data = load_data(config)
    with Runtime(config, run_dir) as runtime:
        loop = AncoraRun(config, run_dir, runtime, data)
        try:
            loop.start()
            loop.warm_up()
            loop.evaluate_before()
            loop.train()
            loop.evaluate_after()
            return runtime.finish(ExitCode.FINISHED)
        except Interrupted:
            loop.save()
            return runtime.finish(ExitCode.INTERRUPTED, "stopped on request")
        except WorkerLost as error:
            if runtime.stop_requested:  # the signal reached the workers as well: the last checkpoint is what there is
                return runtime.finish(ExitCode.INTERRUPTED, f"stopped on request; step {loop.saved_step} is saved")
            log.exception("a worker was lost")
            return runtime.finish(ExitCode.WORKER_LOST, f"{error}; resume=auto continues from step {loop.saved_step}")
        except RolloutFailed as error:
            log.exception("the rollout failed")
            return runtime.finish(ExitCode.FAILED, str(error))


class AncoraRun:
    """The state of a run: what a checkpoint holds, and where it is written."""

    def __init__(self, config: Config, run_dir: RunDir, runtime: Runtime, data: Data) -> None:
        self.config, self.run_dir, self.runtime, self.data = config, run_dir, runtime, data
        self.algo: AncoraConfig = config.algo
        self.style, self.language = config.backbone.prompts, languages(config.sandbox)
        self.prover = build_prover(config.sandbox)
        self.store = CheckpointStore(run_dir.checkpoints, config.cluster.checkpoint.keep)
        self.metrics = MetricsLog(run_dir.metrics)
        self.rollouts = RolloutWriter(run_dir.rollouts)
        self.advantages = Advantages(self.algo.balance, self.algo.freeze, self.algo.proposer.rejected)
        self.curriculum = Curriculum(data.roots, self.algo.curriculum, self.algo.novelty, config.seed)
        self.step = 0  # reinforcement steps done
        self.saved_step = 0
        self.warmed = 0  # supervised steps done
        self.tokens = 0  # generated in reinforcement
        self.valid_rates: deque[float] = deque(maxlen=COLLAPSE_WINDOW)
        self.session: Session

    # ---------------------------------------------------------------- start and resume

    def start(self) -> None:
        """Build the backbone, bring up the engine, and continue from the newest checkpoint if there is one."""
        from selfplay.backbones.prepare import prepare
        from selfplay.engine.policy import PolicySpec

        algo, runtime = self.algo, self.runtime
        runtime.progress.phase("starting the engine")
        with runtime.heartbeat.phase("backbone", stall_s=self.config.cluster.watchdog.startup_s):
            self.backbone = prepare(self.config.backbone)
        policy = PolicySpec(
            model_path=self.backbone,
            max_prompt=algo.max_prompt_tokens,
            max_response=max(algo.proposer.max_tokens, algo.solver.max_tokens),
            temperature=algo.sampling.temperature,
            top_p=algo.sampling.top_p,
            clip_ratio=algo.optim.clip_ratio,
            grad_clip=algo.optim.grad_clip,
            weight_decay=algo.optim.weight_decay,
            kl_coef=algo.optim.kl_coef,
            entropy_coef=algo.optim.entropy_coef,
            frozen_model=self.backbone if self.config.cluster.frozen_servers else None,
        )
        settings = settings_of(algo, self.config.sandbox, self.style, self.language)
        self.session = runtime.start(policy, [EpisodeSpec(EPISODE, FACTORY, settings)])
        self._resume()

    def _resume(self) -> None:
        checkpoint = self.store.latest()
        self.metrics.truncate_after(checkpoint.step if checkpoint else 0)
        self.rollouts.truncate_after(checkpoint.step if checkpoint else 0)
        if checkpoint is None:
            return
        state = json.loads((checkpoint.path / "state.json").read_text(encoding="utf-8"))
        self.step = self.saved_step = checkpoint.step
        self.warmed, self.tokens = state["warmed"], state["tokens"]
        self.valid_rates.extend(state["valid_rates"])
        saved = Summary.from_dict(state["summary"])
        self.runtime.summary.before = saved.before
        for phase, seconds in saved.timing_s.items():
            self.runtime.add_time(phase, seconds)
        self.curriculum = Curriculum.load(checkpoint.path / "pool", self.algo.curriculum, self.algo.novelty)
        if self.algo.optim.kl_coef > 0 and self.run_dir.reference.is_dir():
            self.session.load(self.run_dir.reference)
            self.session.anchor_reference()
        self.session.load(checkpoint.path / "actor", self.step + 1)
        self.runtime.progress.note(f"continuing after step {self.step} (warm-up step {self.warmed})")

    def save(self) -> None:
        """Commit a checkpoint of the steps done: weights, optimizer, pool and counters as one."""
        with self.store.stage(self.step) as folder:
            self.session.save(folder / "actor")
            self.curriculum.save(folder / "pool")
            state = {
                "warmed": self.warmed,
                "tokens": self.tokens,
                "valid_rates": list(self.valid_rates),
                "summary": self.runtime.summary.to_dict(),
            }
            write_atomic(folder / "state.json", to_json(state, indent=2) + "\n")
        self.saved_step = self.step
        self.curriculum.save(self.run_dir.pool)  # for people; a run continues from the checkpoint's own

    # ---------------------------------------------------------------- phases

    def warm_up(self) -> None:
        """Supervised steps on demonstrations, from the cache where they were done before."""
        config, runtime = self.algo.warmup, self.runtime
        if self.step == 0 and self.warmed < config.steps:
            started = time.monotonic()
            runtime.progress.phase("warm-up", self.warmed, config.steps)
            demos = self.data.demonstrations()
            settings = {
                "world_size": self.config.cluster.world_size,
                "dtype": self.config.cluster.fsdp.dtype,
                "weight_decay": self.algo.optim.weight_decay,
                "grad_clip": self.algo.optim.grad_clip,
            }
            cached = warmup.cache_path(self.backbone, demos, config, settings)
            if config.cache and cached.is_dir():
                self.session.load(cached)
                runtime.progress.note(f"warm-up: taken from {cached}")
            else:
                pairs = warmup.encode(self.session, demos)
                warmup.train(self.session, pairs, config, self.warmed, self._after_warmup_chunk)
                if config.cache:
                    warmup.store(self.session, cached)
            self.warmed = config.steps
            self._anchor_reference()
            self.session.reset_optimizer()
            self.session.reseed(self.config.seed)
            self.session.sync()
            runtime.add_time("warm-up", time.monotonic() - started)
            self.save()
        self.session.set_step(self.step + 1)

    def _anchor_reference(self) -> None:
        """The warmed-up policy is what a KL term holds on to, in this launch and in those that continue it."""
        if self.algo.optim.kl_coef == 0:
            return
        self.session.anchor_reference()
        warmup.store(self.session, self.run_dir.reference)

    def _after_warmup_chunk(self, done: int, loss: float) -> None:
        self.warmed = done
        self.runtime.progress.step(done, loss=loss)
        if done < self.algo.warmup.steps:  # after the last chunk there is more to do before the state is whole
            self.runtime.between_steps()
            self.save()

    def evaluate_before(self) -> None:
        if self.runtime.summary.before is None and self.step == 0:
            self.runtime.summary.before = self._evaluate("before")
            self.save()

    def evaluate_after(self) -> None:
        self.runtime.summary.after = self._evaluate("after")

    def _evaluate(self, when: str) -> EvalScore:
        started = time.monotonic()
        self.runtime.progress.phase(f"evaluation ({when})")
        with self.runtime.heartbeat.phase("evaluate"):
            result = evaluate(
                self.session,
                self.prover,
                self.data.heldout,
                samples=self.algo.eval.samples,
                max_tokens=self.algo.solver.max_tokens,
                temperature=self.algo.sampling.temperature,
                top_p=self.algo.sampling.top_p,
                style=self.style,
                language=self.language,
                beat=lambda done, total: self.runtime.heartbeat.beat("verified", done, total),
            )
        lines = "".join(to_json(record) + "\n" for record in result.records)
        write_atomic(self.run_dir.rollouts / f"evaluation_{when}.jsonl", lines)
        score = result.score
        low, high = score.interval
        self.runtime.progress.note(
            f"held-out pass@1 {when}: {score.pass_at_1:.1%} [{low:.1%}, {high:.1%}] (n={score.n})"
        )
        self.runtime.add_time("evaluate", time.monotonic() - started)
        return score

    def train(self) -> None:
        """The reinforcement steps."""
        progress = self.runtime.progress
        progress.phase("train", self.step, self.algo.steps)
        settings = {"algo": self.algo.name, "seed": self.config.seed}
        with MetricLoggers(self.config.logging, self.run_dir.path, settings, self.step + 1) as loggers:
            while self.step < self.algo.steps:
                self.runtime.between_steps()
                values = self.one_step()
                self.metrics.append(self.step, values)
                loggers.log(self.step, values)
                every = self.config.cluster.checkpoint.every
                if self.step % every == 0 or self.step == self.algo.steps:
                    started = time.monotonic()
                    self.save()
                    self.runtime.add_time("save", time.monotonic() - started)
                self.runtime.write_summary()
                progress.step(
                    self.step,
                    reward=values["reward/proposer"],
                    valid=values["q_valid"],
                    pass_rate=values["pass_rate"],
                    pool=values["pool/size"],
                )

    def one_step(self) -> dict[str, Any]:
        """Select, roll out, update, admit; returns the step's metrics."""
        algo, started = self.algo, time.monotonic()
        seeds = self.curriculum.select(algo.seeds_per_step, algo.proposals_per_seed)
        tasks = [task_of(seed, self.curriculum) for seed in seeds]
        result = self.session.step(tasks, self.advantages, self.learning_rate())
        outcomes = take_in(self.curriculum, seeds, result.rows)
        self.step += 1
        values = step_metrics(result, self.advantages, self.curriculum, seeds) | outcomes
        self.valid_rates.append(values["q_valid"])
        values["alarm/collapse"] = self.collapsed()
        every = self.config.logging.rollouts_every
        if every and self.step % every == 0:
            self._write_rollouts(result)
        values["timing/step"] = time.monotonic() - started
        values["timing/other"] = values["timing/step"] - result.busy_s
        self._account(result, values)
        if self.algo.eval.every and self.step % self.algo.eval.every == 0 and self.step < self.algo.steps:
            values["eval/pass_at_1"] = self._evaluate(f"step_{self.step:06d}").pass_at_1
            self.runtime.progress.phase("train", self.step, self.algo.steps)
        return values

    def learning_rate(self) -> float:
        """Linear over the first `warmup_ratio` of the steps, then constant. The first step has a part of it already."""
        optim = self.algo.optim
        rise = optim.warmup_ratio * self.algo.steps
        return optim.lr * min(1.0, (self.step + 1) / rise) if rise > 0 else optim.lr

    def collapsed(self) -> bool:
        """A whole window of steps with few valid proposals (section D.5)."""
        full = len(self.valid_rates) == COLLAPSE_WINDOW
        return full and max(self.valid_rates) < COLLAPSE_RATE

    def _write_rollouts(self, result: StepResult) -> None:
        self.rollouts.write(
            self.step,
            [
                Rollout(
                    key=row["key"],
                    role=row["role"],
                    group=row["group"],
                    prompt=row["prompt"],
                    response=row["response"],
                    verdict=row["verdict"],
                    reward=row["reward"],
                    advantage=advantage,
                    detail=row.get("detail") or row.get("reason") or "",
                )
                for row, advantage in zip(result.rows, self.advantages.values, strict=True)
            ],
        )

    def _account(self, result: StepResult, values: dict[str, Any]) -> None:
        for phase, seconds in result.timing_s.items():
            if phase != "step":
                self.runtime.add_time(phase, seconds)
        self.runtime.add_time("other", values["timing/other"])
        self.tokens += int(values["tokens"])
        busy = sum(s for phase, s in self.runtime.summary.timing_s.items() if phase in (*result.timing_s, "other"))
        self.runtime.summary.steps = self.step
        self.runtime.summary.throughput = {
            "tokens_per_s": round(self.tokens / busy, 1),
            "steps_per_min": round(60 * self.step / busy, 2),
        }
