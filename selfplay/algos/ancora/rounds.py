"""The iterative self-distilled warm-up (ANCORA section 5.1).

    round 0     supervised steps on demonstrations: the formats and the skeletons of answers
    round 1..   a short ANCORA phase from the last round's weights; its verified rollouts, deduplicated; supervised
                steps on them, again from the last round's weights (or from the backbone)

After each round the held-out valid rate and pass@1 are measured: a row of the table. A round that lowers the valid rate
by more than chance is taken back and ends the warm-up. Everything is checkpointed step by step, so a killed run goes on
where it was, and the outcome is cached by the hash of all it depends on. Round 0 does not depend on the run's seed, so
runs share it.
"""

from __future__ import annotations

import logging
import math
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfplay.algos.ancora.distill import HarvestFile, deduplicated, harvest
from selfplay.algos.ancora.position import Stage
from selfplay.algos.ancora.stepper import AncoraStepper
from selfplay.algos.supervised import Supervised, annotate, cache_path, encode, read_note, store
from selfplay.backbones.cache import content_hash
from selfplay.objectives.intervals import fell

if TYPE_CHECKING:
    from selfplay.algos.ancora.driver import AncoraRun

log = logging.getLogger(__name__)

FIRST_STEP = 900_000  # of the request seeds in round 1: far from reinforcement's
STEPS_A_ROUND = 10_000
START = "start"  # the state before round 0


class WarmUp:
    """The warm-up of one run; it moves the run's session, pool and position."""

    def __init__(self, run: AncoraRun) -> None:
        self.run, self.session, self.place = run, run.session, run.position
        self.config = run.algo.warmup
        self.stepper = AncoraStepper(run.session, run.algo)  # a baseline's warm-up is ANCORA's too
        self.folder = run.run_dir.path / "warmup"

    def go(self) -> None:
        """From wherever the run is to the first step of reinforcement; does nothing once that has begun."""
        if self.place.stage is Stage.TRAIN:
            self._forget_states()  # of a run killed just before it could do so itself
            return
        started = time.monotonic()
        if not self.config.steps + self.config.rounds:
            self._end()
        if self._fresh and self.config.rounds and self.config.distill.start == "backbone":
            self._keep_state(START)
        final = self._cache(self.config.rounds)
        if self.config.cache and self.config.rounds and self._fresh and self._take(final):
            self.place.stage = Stage.TRAIN
        while self.place.stage is not Stage.TRAIN:
            if self.place.round == 0:
                self._demonstrations()
            else:
                self._collect()
                self._distill()
        if self.config.cache and self.config.rounds and not final.is_dir():
            store(self.session, final, {"rounds": self.place.rounds})
        self.run.begin_training(time.monotonic() - started)
        self._forget_states()

    @property
    def _fresh(self) -> bool:
        return self.place.stage is Stage.DEMOS and self.place.done == 0

    # ---------------------------------------------------------------- stages

    def _demonstrations(self) -> None:
        """Round 0, or its outcome from the cache; its row of the table too, if it was measured as it would be here."""
        config, shared = self.config, self._cache(0)
        if config.cache and config.steps and self._fresh and self._take(shared):
            self.place.done = config.steps
            if self.place.rounds:
                self._go_on()
                return
        elif config.steps:
            self.run.progress.phase("warm-up", self.place.done, config.steps)
            demos = self.run.data.demonstrations()
            recipe = Supervised(config.steps, config.batch_size, config.lr, config.seed)
            recipe.train(self.session, encode(self.session, demos), self.place.done, self._after_chunk)
            if config.cache and not shared.is_dir():
                store(self.session, shared, {"rounds": []})
        count = self.run.data.demonstrations.count if config.steps else 0
        self._close({"steps": config.steps, "collected": count, "kept": count})
        if config.cache and config.steps:
            annotate(shared, {"rounds": self.place.rounds[:1], "measured": self._measure()})

    def _collect(self) -> None:
        """The ANCORA phase of a round: its pool starts from the roots, its weights from the last round's."""
        if self.place.stage is not Stage.COLLECT:
            return
        run, config, number = self.run, self.config.distill, self.place.round
        if self.place.done == 0:
            self.session.load(self._state(number - 1))
            run.anchor_reference()
            self.session.reset_optimizer()
            self.session.reseed(run.config.seed)
            run.curriculum = run.fresh_pool()
        run.progress.phase(f"warm-up round {number}: rollouts", self.place.done, config.steps)
        while self.place.done < config.steps:
            run.runtime.between_steps()
            self.session.set_step(FIRST_STEP + STEPS_A_ROUND * number + self.place.done)
            result, values = self.stepper.step(run.curriculum, config.play_lr)
            kept = harvest(result.rows, self.place.done, self.session.tokenizer.eos_token_id)
            self._harvest(number).replace_from(self.place.done, kept)
            self.place.done += 1
            run.save()
            run.progress.step(self.place.done, valid=values["q_valid"], pass_rate=values["pass_rate"], kept=len(kept))
        self.place.stage, self.place.done = Stage.DISTILL, 0

    def _distill(self) -> None:
        """Supervised steps on what the round's rollouts brought."""
        run, config, number = self.run, self.config.distill, self.place.round
        collected = self._harvest(number).read()
        kept = deduplicated(collected, config.max_sim)
        if len(kept) < run.config.cluster.world_size:
            log.warning("round %d of the warm-up brought no verified rollout: it is the last", number)
            self.session.load(self._state(number - 1))
            self._end()
            return
        ranks = run.config.cluster.world_size
        batch_size = min(config.batch_size, len(kept) // ranks * ranks)
        steps = math.ceil(config.epochs * (len(kept) // batch_size))
        if self.place.done == 0:
            self.session.load(self._state(START if config.start == "backbone" else number - 1))
            self.session.reset_optimizer()
            run.save()
        run.progress.phase(f"warm-up round {number}: supervised", self.place.done, steps)
        pairs = [(item["prompt_ids"], item["response_ids"]) for item in kept]
        recipe = Supervised(steps, batch_size, config.lr, self.config.seed)
        recipe.train(self.session, pairs, self.place.done, self._after_chunk)
        self._close({"steps": steps, "collected": len(collected), "kept": len(kept)})

    def _after_chunk(self, done: int, loss: float) -> None:
        self.place.done = done
        self.run.progress.step(done, loss=loss)
        self.run.runtime.between_steps()
        self.run.save()

    # ---------------------------------------------------------------- between rounds

    def _close(self, row: dict[str, Any]) -> None:
        """Measure the round, note it, and go on to the next or to reinforcement."""
        number, rounds = self.place.round, self.place.rounds
        self.session.sync()
        scores = self.run.score_round(number)
        proposals = len(self.run.data.heldout) * self.config.distill.validity_samples
        dropped = bool(rounds) and fell(rounds[-1]["q_valid"], scores["q_valid"], proposals)
        used = not (self.config.distill.stop_on_drop and dropped)
        rounds.append({"round": number, **row, **scores, "used": used})
        if used:
            self._go_on()
            return
        log.warning("round %d lowered the held-out valid rate: back to round %d", number, number - 1)
        self.session.load(self._state(number - 1))
        self._end()

    def _go_on(self) -> None:
        """To the next round, or to reinforcement after the last."""
        number = self.place.round
        if number == self.config.rounds:
            self._end()
            return
        self._keep_state(number)
        self.place.round, self.place.stage, self.place.done = number + 1, Stage.COLLECT, 0
        self.run.save()

    def _end(self) -> None:
        self.place.stage, self.place.done = Stage.TRAIN, 0

    def _forget_states(self) -> None:
        shutil.rmtree(self.folder / "states", ignore_errors=True)

    def _state(self, number: int | str) -> Path:
        return self.folder / "states" / f"round_{number}"

    def _harvest(self, number: int) -> HarvestFile:
        return HarvestFile(self.folder / f"round_{number}.jsonl")

    def _keep_state(self, number: int | str) -> None:
        shutil.rmtree(self._state(number), ignore_errors=True)  # of a run killed before it could note the round
        store(self.session, self._state(number))

    # ---------------------------------------------------------------- cache

    def _take(self, path: Path) -> bool:
        """Load a cached state; False if there is none. Raises ValueError for one whose files are not what we write."""
        if not path.is_dir():
            return False
        self.session.load(path)
        note = read_note(path)
        self.place.rounds = note["rounds"] if note.get("measured", self._measure()) == self._measure() else []
        self.run.progress.note(f"warm-up: taken from {path}")
        return True

    def _measure(self) -> str:
        """Stands for all that a row of the table depends on besides the weights."""
        algo, config = self.run.algo, self.run.config
        suites = {name: [root.spec for root in roots] for name, roots in self.run.data.suites.items()}
        sampling = [asdict(algo.sampling), algo.proposer.max_tokens, algo.solver.max_tokens, algo.max_prompt_tokens]
        counts = [self.config.distill.eval_samples, self.config.distill.validity_samples, algo.eval.shots]
        return content_hash(
            {
                "suites": suites,
                "sampling": [*sampling, *counts, config.seed],
                "sandbox": asdict(config.sandbox),
                "style": config.backbone.prompts,
            }
        )

    def _cache(self, rounds: int) -> Path:
        """Where the state after so many rounds is kept; rounds on own rollouts depend on all that a step does."""
        run, config = self.run, self.config
        settings: dict[str, Any] = {
            "steps": config.steps,
            "batch_size": config.batch_size,
            "lr": config.lr,
            "seed": config.seed,
            "world_size": run.config.cluster.world_size,
            "dtype": run.config.cluster.fsdp.dtype,
            "weight_decay": run.algo.optim.weight_decay,
            "grad_clip": run.algo.optim.grad_clip,
        }
        if rounds:
            algo = asdict(run.algo)
            for key in ("name", "steps", "max_solver_samples", "on_collapse", "rejection", "eval"):
                algo.pop(key, None)  # what begins after the warm-up
            del algo["optim"]["lr"], algo["optim"]["warmup_ratio"]
            settings["rounds"] = {
                "algo": algo,
                "roots": [root.spec for root in run.data.roots],
                "pool": run.fresh_pool().pool_hash(),
                "measure": self._measure(),  # by the held-out valid rate a round is taken back
                "sandbox": asdict(run.config.sandbox),
                "seed": run.config.seed,
            }
        return cache_path(run.backbone, run.data.demonstrations.key, settings)
