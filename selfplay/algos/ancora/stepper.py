"""One step of ANCORA's loop (section 4): select seeds, roll out, update, admit. The warm-up's rounds take it too."""

from __future__ import annotations

import time
from typing import Any, Protocol

from selfplay.algos.ancora.advantages import Advantages
from selfplay.algos.ancora.config import AncoraConfig
from selfplay.algos.ancora.curriculum_step import take_in, task_of
from selfplay.algos.ancora.metrics import step_metrics
from selfplay.algos.step_metrics import readable
from selfplay.curriculum.curriculum import Curriculum
from selfplay.engine.session import Session, StepResult
from selfplay.runs.rollouts import Rollout


class Stepper(Protocol):
    """What turns a pool and a learning rate into a step; the baselines have their own (`rejection`)."""

    def step(self, curriculum: Curriculum, lr: float) -> tuple[StepResult, dict[str, Any]]:
        """The rows and the step's metrics; the pool has moved on by one step."""
        ...

    def readable(self, result: StepResult) -> list[Rollout]:
        """The last step's rows for `rollouts/`."""
        ...


class AncoraStepper:
    """ANCORA's. `advantages` has the last step's weights and values."""

    def __init__(self, session: Session, algo: AncoraConfig) -> None:
        self.session, self.algo = session, algo
        self.advantages = Advantages(algo.balance, algo.freeze, algo.proposer.rejected)

    def step(self, curriculum: Curriculum, lr: float) -> tuple[StepResult, dict[str, Any]]:
        """The rows and the step's metrics; the pool has moved on by one step."""
        started = time.monotonic()
        seeds = curriculum.select(self.algo.seeds_per_step, self.algo.proposals_per_seed)
        tasks = [task_of(seed, curriculum) for seed in seeds]
        result = self.session.step(tasks, self.advantages, lr)
        outcomes = take_in(curriculum, seeds, result.rows)
        values = step_metrics(result, self.advantages, curriculum, seeds) | outcomes
        values["timing/step"] = time.monotonic() - started
        values["timing/other"] = values["timing/step"] - result.busy_s
        return result, values

    def readable(self, result: StepResult) -> list[Rollout]:
        """The last step's rows for `rollouts/`."""
        return readable(result, self.advantages.values)
