"""One round's search, from models to files: evolve, measure again, rate, release."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from selfplay.algos.benchevolver import tables
from selfplay.algos.benchevolver.config import POLICY, BenchEvolverConfig, panel_roles
from selfplay.algos.benchevolver.evolve import Evolution, Lineage, finish_all
from selfplay.algos.benchevolver.measure import Panel
from selfplay.algos.benchevolver.models import (
    Budget,
    BudgetSpent,
    CallLog,
    ChatModel,
    Endpoint,
    Models,
    Recorded,
)
from selfplay.algos.benchevolver.prompts import Wording
from selfplay.algos.benchevolver.release import quality, write_release
from selfplay.benchmarks.code_task import CodeTask, to_record
from selfplay.config.errors import ConfigError
from selfplay.runs.files import to_json, write_atomic
from selfplay.sandbox.judge.judge import Judge

CALLS = "calls.jsonl"


@dataclass(frozen=True)
class Again:
    """Accuracies of accepted tasks (and of their seeds) when they were accepted, and in as many fresh attempts.

    Acceptance selects for low draws, so `accepted` looks harder than it is; `fresh` does not.
    """

    seeds: float
    accepted: float
    fresh_seeds: float
    fresh: float


class Search:
    """The searches of a run: one log and one budget for all rounds. `folder` is the run's."""

    def __init__(self, algo: BenchEvolverConfig, folder: Path, judge: Judge, wording: Wording, seed: int) -> None:
        self.algo, self.folder, self.judge, self.wording, self.seed = algo, folder, judge, wording, seed
        if algo.replay and not (folder / CALLS).exists():
            _copy_log(Path(algo.replay), folder)
        self.log = CallLog(folder / CALLS)
        self.budget = Budget(algo.budget)
        self.endpoints = algo.endpoint_configs()
        self._prices = {one.model: (one.price_in, one.price_out) for one in self.endpoints.values()}

    def round_folder(self, number: int) -> Path:
        return self.folder / "rounds" / f"{number:03d}"

    async def run(
        self,
        number: int,
        seeds: Sequence[CodeTask],
        evaluation: Mapping[str, Sequence[str]],
        policy: ChatModel | None,
        on_step: Callable[[int, Sequence[Lineage]], None],
    ) -> dict[str, Any]:
        """Search, write the round's files, and return its row. Raises EndpointRefused or NotInLog."""
        started, roles = time.monotonic(), panel_roles(len(self.algo.roles.targets))
        models = Models(self._roles(number, policy), self.log, self.budget, self.algo.at_once, self._prices)
        search = Evolution(models, self.judge, self.algo.evolution, roles, on_step, self.wording, number)
        lineages = await search.run(seeds)
        message = search.message
        again, scores = None, None
        try:
            again = await self._again(models, lineages, number)
            scores = await self._rated(models, lineages)
        except BudgetSpent as error:
            message = message or f"stopped: {error}"
        folder = self.round_folder(number)
        report = write_release(
            folder,
            lineages,
            version=f"seed {self.seed}, round {number}",
            models={role: model.name for role, model in models.roles.items()},
            licence=self.algo.licence,
            evaluation=evaluation,
            scores=scores,
            config=self.algo.plus,
        )
        accepted_tasks = [one.task for lineage in lineages for one in lineage.evolved]
        write_atomic(folder / "tasks.jsonl", "".join(to_json(to_record(task)) + "\n" for task in accepted_tasks))
        write_atomic(folder / "attempts.jsonl", _attempts(lineages))
        write_atomic(folder / "report.md", tables.report(lineages, report, asdict(again) if again else None))
        accepted, seconds = report["accepted"], time.monotonic() - started
        row: dict[str, Any] = {key: report[key] for key in ("seeds", "evolved_seed_fraction", "accepted", "attempts")}
        row |= {key: report[key] for key in ("rejected", "repairs", "accuracy", "families", "family_entropy_bits")}
        row |= {
            "again": asdict(again) if again else None,
            "plus": report.get("plus", {}).get("tasks", 0),
            "calls": models.asked + models.answered_from_log,
            "answered_from_log": models.answered_from_log,
            "tokens": models.tokens,
            "tokens_per_accepted": models.tokens / accepted if accepted else None,
            "seconds_per_accepted": round(seconds / accepted, 2) if accepted else None,
            "message": message,
        }
        return row

    def _roles(self, number: int, policy: ChatModel | None) -> dict[str, ChatModel]:
        """Who answers in this round; the names are kept for a replay."""
        names = self.algo.roles.by_role()
        path = self.round_folder(number) / "models.json"
        if self.algo.replay:
            recorded = json.loads((Path(self.algo.replay) / path.relative_to(self.folder)).read_text(encoding="utf-8"))
            return {role: Recorded(recorded[role]) for role in names}
        models: dict[str, ChatModel] = {name: Endpoint(config) for name, config in self.endpoints.items()}
        if policy is not None:
            models[POLICY] = policy
        chosen = {role: models[name] for role, name in names.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, to_json({role: model.name for role, model in chosen.items()}) + "\n")
        return chosen

    async def _again(self, models: Models, lineages: Sequence[Lineage], number: int) -> Again | None:
        """Fresh attempts at what was accepted and at its seeds. None where nothing was, or `remeasure` is 0."""
        evolved = [(lineage.seed, one) for lineage in lineages for one in lineage.evolved]
        if not evolved or not self.algo.remeasure:
            return None
        config = replace(self.algo.evolution.panel, attempts=self.algo.remeasure)
        panel = Panel(models, self.judge, self.wording, config, panel_roles(len(self.algo.roles.targets)))

        async def fresh(task: CodeTask) -> float:
            return (await panel.measure(task, (number, task.task_id, "again"))).accuracy

        seeds = list({seed.task_id: seed for seed, _ in evolved}.values())
        accuracies = await finish_all([fresh(task) for task in (*seeds, *(one.task for _, one in evolved))])
        return Again(
            seeds=_mean([one.seed_accuracy for _, one in evolved]),
            accepted=_mean([one.accuracy for _, one in evolved]),
            fresh_seeds=_mean(accuracies[: len(seeds)]),
            fresh=_mean(accuracies[len(seeds) :]),
        )

    async def _rated(self, models: Models, lineages: Sequence[Lineage]) -> dict[str, int | None]:
        """The rubric's score of every accepted task."""
        tasks = [one.task for lineage in lineages for one in lineage.evolved]
        scores = await finish_all([quality(models, self.wording, task) for task in tasks])
        return {task.task_id: score for task, score in zip(tasks, scores, strict=True)}

    def close(self) -> None:
        self.log.close()


def _copy_log(source: Path, folder: Path) -> None:
    """The answers of an earlier run. Raises ConfigError where there are none."""
    if not (source / CALLS).is_file():
        raise ConfigError(f"algo.replay: {str(source)!r} is not allowed; it is a run directory with {CALLS}")
    partial = folder / f".{CALLS}"
    shutil.copyfile(source / CALLS, partial)
    partial.rename(folder / CALLS)


def _attempts(lineages: Sequence[Lineage]) -> str:
    """Every evolution step of the round, a line each."""
    return "".join(to_json(asdict(attempt)) + "\n" for lineage in lineages for attempt in lineage.memory.attempts)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
