"""ANCORA's outer loop (arXiv 2604.27644, section 4): one policy proposes specifications and proves them.

    warm up -> evaluate -> steps x [select seeds -> propose, gate, solve, verify -> update -> admit] -> evaluate

`run` is the table of contents. A checkpoint holds weights, optimizer, pool and counters together, committed at once:
a run that is killed and resumed does what an unbroken one does.
"""

from __future__ import annotations

import logging
import shutil
import time
from typing import Any

from selfplay.algos.ancora import collapse
from selfplay.algos.ancora.config import AncoraConfig, RejectionConfig
from selfplay.algos.ancora.data import Data, check_lengths, load_data
from selfplay.algos.ancora.episode import EPISODE, FACTORY, settings_of
from selfplay.algos.ancora.evaluation import Examiner
from selfplay.algos.ancora.position import Position
from selfplay.algos.ancora.rejection import Psv, Rft
from selfplay.algos.ancora.rounds import WarmUp
from selfplay.algos.ancora.stepper import AncoraStepper, Stepper
from selfplay.algos.runtime import Runtime, conclude, languages
from selfplay.algos.supervised import store as store_state
from selfplay.algos.training_run import TrainingRun
from selfplay.config.errors import ConfigError
from selfplay.config.schema import Config
from selfplay.curriculum.curriculum import Curriculum
from selfplay.curriculum.persistence import PoolError
from selfplay.engine.session import EpisodeSpec, StepResult
from selfplay.runs.checkpoints import Checkpoint
from selfplay.runs.files import to_json, write_atomic
from selfplay.runs.loggers import MetricLoggers
from selfplay.runs.rundir import RunDir
from selfplay.runs.summary import EvalScore
from selfplay.sandbox.registry import build_prover

log = logging.getLogger(__name__)

BASELINES = {"rft": Rft, "psv": Psv}


def run(config: Config, run_dir: RunDir) -> int:
    """Train; returns the exit code. Raises ConfigError for data that cannot be used."""
    data = load_data(config)
    with Runtime(config, run_dir) as runtime:
        loop = AncoraRun(config, run_dir, runtime, data)
        return conclude(runtime, loop, loop.go)


class AncoraRun(TrainingRun):
    """The state of a run: what a checkpoint holds, and where it is written."""

    position: Position
    stepper: Stepper
    examiner: Examiner

    def __init__(self, config: Config, run_dir: RunDir, runtime: Runtime, data: Data) -> None:
        self.algo: AncoraConfig = config.algo
        super().__init__(config, run_dir, runtime, collapse.WINDOW if self.algo.on_collapse == "rollback" else 0)
        self.data = data
        self.curriculum = self.fresh_pool()
        self.position = Position()

    def fresh_pool(self) -> Curriculum:
        """A pool of the roots alone, or an earlier run's (`algo.pool`)."""
        algo = self.algo
        if not algo.pool:
            return Curriculum(self.data.roots, algo.curriculum, algo.novelty, self.config.seed)
        try:
            return Curriculum.load(algo.pool, algo.curriculum, algo.novelty, reset_pass_rate=algo.reset_pass_rate)
        except PoolError as error:
            raise ConfigError(f"algo.pool: {error}") from error

    def go(self) -> str:
        """The whole run; returns why it ended early, if it did."""
        self.start()
        WarmUp(self).go()
        self.evaluate_before()
        message = self.train()
        self.evaluate_after()
        return message

    # ---------------------------------------------------------------- start and resume

    def start(self) -> None:
        """Build the backbone, bring up the engine, and continue from the newest checkpoint if there is one."""
        from selfplay.engine.policy import PolicySpec

        algo = self.algo
        policy = PolicySpec(
            model_path=self.prepare_backbone(self.config.backbone),
            trust_remote_code=self.config.backbone.trust_remote_code,
            max_prompt=algo.max_prompt_tokens,
            max_response=algo.max_response(),
            temperature=algo.sampling.temperature,
            top_p=algo.sampling.top_p,
            clip_ratio=algo.optim.clip_ratio,
            grad_clip=algo.optim.grad_clip,
            weight_decay=algo.optim.weight_decay,
            kl_coef=algo.optim.kl_coef,
            entropy_coef=algo.optim.entropy_coef,
        )
        style, language = self.config.backbone.prompts, languages(self.config.sandbox)
        settings = settings_of(algo, self.config.sandbox, style, language)
        self.session = self.runtime.start(policy, [EpisodeSpec(EPISODE, FACTORY, settings)])
        check_lengths(self.data, self.session.render, algo.max_prompt_tokens, {"style": style, "language": language})
        prover = build_prover(self.config.sandbox)
        if isinstance(algo, RejectionConfig):
            self.stepper = BASELINES[algo.name](self.session, algo, prover, style, language, self.config.seed)
        else:
            self.stepper = AncoraStepper(self.session, algo)
        self.examiner = Examiner(self.session, prover, algo, style, language, self.data.roots)
        self._go_to(self.store.latest())

    def _go_to(self, checkpoint: Checkpoint | None) -> None:
        """Drop what was written after a checkpoint and continue from it; None is the very start."""
        position = self.rewind(checkpoint)
        if checkpoint is None or position is None:
            return
        self.position = Position.from_dict(position)
        self.curriculum = Curriculum.load(checkpoint.path / "pool", self.algo.curriculum, self.algo.novelty)
        if self.algo.optim.kl_coef > 0 and self.run_dir.reference.is_dir():
            self.session.load(self.run_dir.reference)
            self.session.anchor_reference()
        self.session.load(checkpoint.path / "actor", self.position.step + 1)
        where = f"step {self.position.step} ({self.position.stage}, {self.position.done} done)"
        self.progress.note(f"continuing after {where}")

    def save(self) -> None:
        """Commit a checkpoint of the steps done: weights, optimizer, pool and counters as one."""
        self.commit(lambda folder: self.curriculum.save(folder / "pool"))
        self.curriculum.save(self.run_dir.pool)  # for people; a run continues from the checkpoint's own

    # ---------------------------------------------------------------- phases

    def score_round(self, number: int) -> dict[str, Any]:
        """Held-out pass@1 of every suite and the held-out valid rate, after a round of the warm-up."""
        self.progress.phase(f"warm-up round {number}: evaluation")
        with self.runtime.heartbeat.phase("evaluate"):
            n = self.algo.warmup.distill.eval_samples
            seed = self.algo.warmup.seed  # runs share the row, so it must not depend on their own
            scores = {
                name: self.examiner.solve(roots, n, self._beat, seed).score for name, roots in self.data.suites.items()
            }
            valid = self.examiner.validity(self.data.heldout, self._beat, seed)
        row = {"q_valid": valid, "pass_at_1": {name: score.pass_at_1 for name, score in scores.items()}}
        self.progress.note(f"round {number}: valid {valid:.1%}, pass@1 {next(iter(scores.values())).pass_at_1:.1%}")
        return row

    def anchor_reference(self) -> None:
        """Let the KL term, if there is one, hold on to the present policy, in this launch and those that continue."""
        if self.algo.optim.kl_coef > 0:
            self.session.anchor_reference()
            shutil.rmtree(self.run_dir.reference, ignore_errors=True)
            store_state(self.session, self.run_dir.reference)

    def begin_training(self, seconds: float) -> None:
        """From the warm-up to reinforcement."""
        self.anchor_reference()
        self.session.reset_optimizer()
        self.session.reseed(self.config.seed)
        self.session.sync()
        self.curriculum = self.fresh_pool()
        self.runtime.add_time("warm-up", seconds)
        self.runtime.summary.warmup = self.position.rounds
        self.save()

    def evaluate_before(self) -> None:
        if self.runtime.summary.before is None and self.position.step == 0:
            self.runtime.summary.before = self._evaluate("before")
            self.save()
        self.session.set_step(self.position.step + 1)

    def evaluate_after(self) -> None:
        self.runtime.summary.after = self._evaluate("after")
        self.count_gain("pass_at_1")

    def _beat(self, done: int, total: int) -> None:
        self.runtime.heartbeat.beat("verified", done, total)

    def _evaluate(self, when: str) -> EvalScore:
        """Every suite; the first one's score is the run's, the others' go into its `suites`."""
        started = time.monotonic()
        self.progress.phase(f"evaluation ({when})")
        scores: dict[str, EvalScore] = {}
        for name, roots in self.data.suites.items():
            with self.runtime.heartbeat.phase("evaluate"):
                result = self.examiner.solve(roots, self.algo.eval.samples, self._beat)
            tail = when if name == "heldout" else f"{when}_{name}"
            lines = "".join(to_json(record) + "\n" for record in result.records)
            write_atomic(self.run_dir.rollouts / f"evaluation_{tail}.jsonl", lines)
            scores[name] = result.score
            low, high = result.score.interval
            self.progress.note(
                f"{name} pass@1 {when}: {result.score.pass_at_1:.1%} [{low:.1%}, {high:.1%}] (n={result.score.n})"
            )
        self.runtime.add_time("evaluate", time.monotonic() - started)
        score = scores.pop("heldout")
        score.suites = scores
        return score

    def train(self) -> str:
        """The reinforcement steps; returns why they ended early, if they did."""
        self.progress.phase("train", self.position.step, self.algo.steps)
        settings = {"algo": self.algo.name, "seed": self.config.seed}
        with MetricLoggers(self.config.logging, self.run_dir.path, settings, self.position.step + 1) as loggers:
            while self.position.step < self.algo.steps and not self._at_end():
                self.runtime.between_steps()
                values = self.one_step()
                step = self.position.step
                self.metrics.append(step, values)
                loggers.log(step, values)
                if values["alarm/collapse"] and self.on_collapse():
                    continue  # at an earlier step
                if step % self.config.cluster.checkpoint.every == 0 or step == self.algo.steps or self._at_end():
                    started = time.monotonic()
                    self.save()
                    self.runtime.add_time("save", time.monotonic() - started)
                self.runtime.write_summary()
                self.progress.step(
                    step,
                    reward=values["reward/proposer"],
                    valid=values["q_valid"],
                    pass_rate=values["pass_rate"],
                    pool=values["pool/size"],
                )
                if step < self.algo.steps and not self._at_end():
                    self.runtime.iteration_done()
        return self.position.stopped

    def _at_end(self) -> bool:
        return self.spent() or bool(self.position.stopped)

    def spent(self) -> bool:
        """Whether the budget of attempts is used up."""
        return 0 < self.algo.max_solver_samples <= self.position.attempts

    def one_step(self) -> dict[str, Any]:
        """One step of the loop, counted; returns its metrics."""
        place = self.position
        result, values = self.stepper.step(self.curriculum, self.learning_rate())
        place.step += 1
        place.attempts += values["attempts"]
        place.valid_rates = [*place.valid_rates, values["q_valid"]][-collapse.WINDOW :]
        values["alarm/collapse"] = collapse.collapsed(place.valid_rates)
        every = self.config.logging.rollouts_every
        if every and place.step % every == 0:
            self.rollouts.write(place.step, self.stepper.readable(result))
        self._account(result, values)
        if self.algo.eval.every and place.step % self.algo.eval.every == 0 and place.step < self.algo.steps:
            score = self._evaluate(f"step_{place.step:06d}")
            values["eval/pass_at_1"] = score.pass_at_1
            values |= {f"eval/{name}/pass_at_1": other.pass_at_1 for name, other in score.suites.items()}
            self.progress.phase("train", place.step, self.algo.steps)
        return values

    def learning_rate(self) -> float:
        """Linear over the first `warmup_ratio` of the steps, then constant. The first step has a part of it already.

        Halved for each time that the run was rolled back.
        """
        optim = self.algo.optim
        rise = optim.warmup_ratio * self.algo.steps
        peak = optim.lr / 2**self.position.rollbacks
        return peak * min(1.0, (self.position.step + 1) / rise) if rise > 0 else peak

    def on_collapse(self) -> bool:
        """Warn, and do what `on_collapse` says; returns whether the run went back to an earlier step."""
        rates = self.position.valid_rates
        what = f"step {self.position.step}: the last {len(rates)} steps had a valid rate below {collapse.RATE:.0%}"
        log.warning("collapse: %s", what)
        if self.algo.on_collapse == "warn":
            self.progress.note(f"collapse: {what}")
            self.position.valid_rates = []  # the next warning comes after another whole window
            return False
        if self.algo.on_collapse == "stop":
            self.position.stopped = f"stopped: {what}"
            return False
        healthy = collapse.before_collapse(self.store, self.position.step)
        rollbacks, attempts = self.position.rollbacks + 1, self.position.attempts
        if healthy is None or rollbacks > collapse.MAX_ROLLBACKS:
            self.position.stopped = f"stopped: {what}, after {rollbacks - 1} rollbacks"
            return False
        self.store.drop_after(healthy.step)
        self._go_to(healthy)
        self.position.rollbacks, self.position.valid_rates = rollbacks, []
        self.position.attempts = attempts  # what was given up was spent all the same
        self.save()
        self.progress.note(f"collapse: {what}; back to step {healthy.step}, learning rate {self.learning_rate():g}")
        self.progress.phase("train", self.position.step, self.algo.steps)
        return True

    def _account(self, result: StepResult, values: dict[str, Any]) -> None:
        for phase, seconds in result.timing_s.items():
            if phase != "step":
                self.runtime.add_time(phase, seconds)
        self.runtime.add_time("other", values["timing/other"])
        self.position.tokens += int(values["tokens"])
        busy = sum(s for phase, s in self.runtime.summary.timing_s.items() if phase in (*result.timing_s, "other"))
        self.runtime.summary.steps = self.position.step
        self.runtime.summary.throughput = {
            "tokens_per_s": round(self.position.tokens / busy, 1),
            "steps_per_min": round(60 * self.position.step / busy, 2),
        }
