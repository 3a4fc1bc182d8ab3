"""What a search leaves: evolved.jsonl, the "plus" benchmark, and manifests that say what is in them and what is not."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from selfplay.algos.benchevolver.candidate import Evolved
from selfplay.algos.benchevolver.evolution_config import PlusConfig
from selfplay.algos.benchevolver.evolve import NGRAM, Lineage
from selfplay.algos.benchevolver.models import Call, CallFailed, Models
from selfplay.algos.benchevolver.prompts import Wording
from selfplay.algos.benchevolver.replies import Unreadable, section
from selfplay.benchmarks import livecodebench, scicode
from selfplay.benchmarks.code_task import CodeTask
from selfplay.curriculum.contamination import Contamination
from selfplay.runs.files import to_json, write_atomic
from selfplay.sandbox.judge.cases import AssertTest

RUBRIC_TOKENS = 2048


def evolved_record(evolved: Evolved, seed: CodeTask) -> dict[str, Any]:
    """A record in LiveCodeBench's format, the seed's platform and date inherited; `lineage` is in its metadata."""
    inherited = {key: seed.source[key] for key in ("platform", "contest_date", "contest_id") if key in seed.source}
    source = {**inherited, "question_title": evolved.task.task_id, "lineage": evolved.to_dict()}
    return livecodebench.record_of(replace(evolved.task, source=source))


def scientific(task: CodeTask) -> bool:
    """Whether a task's tests are assertions: LiveCodeBench has none, SciCode has nothing else."""
    return any(isinstance(test, AssertTest) for test in task.tests)


def scientific_files(name: str, tasks: Sequence[CodeTask]) -> dict[str, str]:
    """`<name>_scicode.jsonl`, a problem of one step a task, and the targets of its assertions; {} if there is none.

    The targets are what `benchmarks.scicode.read` takes: SciCode keeps its own in a binary file apart.
    """
    chosen = [task for task in tasks if scientific(task)]
    if not chosen:
        return {}
    problems = [scicode.problem_of([task], str(i), task.task_id) for i, task in enumerate(chosen, start=1)]
    targets = {
        f"{i}.1": [test.target for test in task.hidden if isinstance(test, AssertTest)]
        for i, task in enumerate(chosen, start=1)
    }
    return {f"{name}_scicode.jsonl": scicode.lines_of(problems), f"{name}_targets.json": to_json(targets) + "\n"}


def manifest(lineages: Sequence[Lineage], evaluation: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Counts of everything that was tried, and the overlap of what was accepted with each evaluation set."""
    attempts = [attempt for lineage in lineages for attempt in lineage.memory.attempts]
    evolved = [one for lineage in lineages for one in lineage.evolved]
    tried = [lineage for lineage in lineages if lineage.memory.attempts]
    accuracies = [lineage.memory.seed_accuracy for lineage in lineages if lineage.measured is not None]
    return {
        "seeds": {
            "given": len(lineages),
            "unsound": {lineage.seed.task_id: lineage.unsound for lineage in lineages if lineage.unsound},
            "measured": len(accuracies),
            "saturated": len(tried),
            "evolved": sum(bool(lineage.evolved) for lineage in lineages),
        },
        "evolved_seed_fraction": _share(sum(bool(lineage.evolved) for lineage in tried), len(tried)),
        "accepted": len(evolved),
        "attempts": len(attempts),
        "rejected": dict(Counter(str(attempt.reason) for attempt in attempts if attempt.reason).most_common()),
        "repairs": dict(Counter(kind for attempt in attempts for kind in attempt.repairs).most_common()),
        "accuracy": {
            "seeds_of_accepted": _mean([one.seed_accuracy for one in evolved]),
            "accepted": _mean([one.accuracy for one in evolved]),
            "by_model": {
                role: _mean([one.by_model[role] for one in evolved])
                for role in (evolved[0].by_model if evolved else ())
            },
        },
        "families": dict(Counter(one.mutation.family for one in evolved).most_common()),
        "family_entropy_bits": entropy(Counter(one.mutation.family for one in evolved)),
        "contamination": contamination([one.task for one in evolved], evaluation),
    }


def contamination(
    tasks: Sequence[CodeTask], evaluation: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, list[str]]]:
    """Of each evaluation set (name -> statements): the tasks that share an n-gram or are near by MinHash."""
    report: dict[str, dict[str, list[str]]] = {}
    for name, statements in evaluation.items():
        check = Contamination(statements, NGRAM)
        found: dict[str, list[str]] = {"n-gram": [], "minhash": []}
        for task in tasks:
            if kind := check.of(task.statement):
                found[kind].append(task.task_id)
        report[name] = found
    return report


def entropy(counts: Mapping[str, int]) -> float:
    """Of a distribution, in bits; 0 for none."""
    total = sum(counts.values())
    return -sum(n / total * math.log2(n / total) for n in counts.values()) if total else 0.0


async def quality(models: Models, wording: Wording, task: CodeTask) -> int | None:
    """The rubric's score of a statement, 1 to 5, by the model of role `quality`; None where it gives none."""
    call = Call("quality", wording.quality(task.statement), (task.task_id,), RUBRIC_TOKENS, temperature=0.0)
    try:
        text = section((await models.complete(call)).text, "score").strip()
    except (CallFailed, Unreadable):
        return None
    return int(text) if re.fullmatch(r"[1-5]", text) else None


def plus(
    lineages: Sequence[Lineage], scores: Mapping[str, int | None], config: PlusConfig
) -> tuple[list[tuple[CodeTask, float]], dict[str, int]]:
    """The benchmark's tasks with their accuracies, evolved ones first, then hard originals; and why not the rest."""
    left_out: Counter[str] = Counter()
    kept: list[tuple[CodeTask, float]] = []
    for lineage in lineages:
        for one in lineage.evolved:
            score = scores.get(one.task.task_id)
            if score is None or score < config.min_quality:
                left_out["no quality score" if score is None else f"quality below {config.min_quality}"] += 1
            elif not config.low <= one.accuracy <= config.high:
                left_out["pass@1 outside the window"] += 1
            else:
                kept.append((one.task, one.accuracy))
    for lineage in lineages:
        if lineage.measured is not None and config.low <= lineage.measured.accuracy <= config.high:
            kept.append((lineage.seed, lineage.measured.accuracy))
    return kept, dict(left_out)


def write_release(
    folder: Path,
    lineages: Sequence[Lineage],
    *,
    version: str,
    models: Mapping[str, str],
    licence: str,
    evaluation: Mapping[str, Sequence[str]],
    scores: Mapping[str, int | None] | None = None,
    config: PlusConfig | None = None,
) -> dict[str, Any]:
    """Write evolved.jsonl, and plus.jsonl where there are quality scores, with manifest.json; returns the manifest.

    `models` says which model had which role, `licence` under which terms the seeds came: both go into the manifest.
    """
    folder.mkdir(parents=True, exist_ok=True)
    evolved = [(one, lineage.seed) for lineage in lineages for one in lineage.evolved]
    programs = [to_json(evolved_record(one, seed)) + "\n" for one, seed in evolved if not scientific(one.task)]
    files = {"evolved.jsonl": "".join(programs)}
    files |= scientific_files("evolved", [one.task for one, _ in evolved])
    report = manifest(lineages, evaluation)
    if scores is not None:
        tasks, left_out = plus(lineages, scores, config or PlusConfig())
        files["plus.jsonl"] = livecodebench.lines_of([task for task, _ in tasks if not scientific(task)])
        files |= scientific_files("plus", [task for task, _ in tasks])
        originals = {lineage.seed.task_id for lineage in lineages}
        report["plus"] = {
            "tasks": len(tasks),
            "evolved": sum(task.task_id not in originals for task, _ in tasks),
            "originals": sum(task.task_id in originals for task, _ in tasks),
            "left_out": left_out,
            "pass_at_1": _mean([accuracy for _, accuracy in tasks]),
            "quality": {task_id: score for task_id, score in sorted(scores.items()) if score is not None},
        }
    report |= {"version": version, "models": dict(models), "licence": licence}
    report["attribution"] = [
        {"seed": lineage.seed.task_id, "platform": str(lineage.seed.source.get("platform", ""))}
        for lineage in lineages
        if lineage.evolved
    ]
    report["sha256"] = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    for name, text in files.items():
        write_atomic(folder / name, text)
    write_atomic(folder / "manifest.json", to_json(report, indent=1) + "\n")
    return report


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
