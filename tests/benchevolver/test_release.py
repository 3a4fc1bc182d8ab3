"""What a search leaves behind: records that others can load, and manifests whose counts are right."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_models import STATEMENT, Scripted, seed

from selfplay.algos.benchevolver.evolution_config import EvolutionConfig, PlusConfig
from selfplay.algos.benchevolver.evolve import Evolution, Lineage
from selfplay.algos.benchevolver.models import Budget, BudgetConfig, CallLog, Models
from selfplay.algos.benchevolver.prompts import Full
from selfplay.algos.benchevolver.release import entropy, plus, quality, write_release
from selfplay.benchmarks import livecodebench
from selfplay.sandbox.config import JudgeConfig
from selfplay.sandbox.judge.judge import Judge


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    judge = Judge(JudgeConfig())
    yield judge
    judge.close()


@pytest.fixture(scope="module")
def lineages(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> list[Lineage]:
    """One seed with an evolved task, one that is only half solved, one that is unsound."""

    def target(call: Any, n: int) -> str:
        text = call.messages[0]["content"]
        wrong = "half" in text and call.key[-2] >= 2
        program = "print(0)" if wrong else "print(sum(map(int, input().split())))"
        if "squares" in text and call.key[-2] < 2:
            program = "print(sum(int(x) ** 2 for x in input().split()))"
        return f"```python\n{program}\n```"

    models = models_of(Scripted(target=target), tmp_path_factory.mktemp("calls"))
    half = seed("half", statement="This one is half as easy: two integers are given, say their total.")
    first = seed("first", source={"platform": "atcoder", "contest_date": "2024-05-01T00:00:00"})
    search = Evolution(models, judge, EvolutionConfig(steps=2))
    return asyncio.run(search.run([first, half, seed("bad", reference="print(4)")]))


def models_of(model: Scripted, folder: Path) -> Models:
    roles = ("proposer", "brute_force", "oracle", "target", "quality")
    return Models(dict.fromkeys(roles, model), CallLog(folder / "calls.jsonl"), Budget(BudgetConfig()))


def release(folder: Path, lineages: list[Lineage], **more: Any) -> dict[str, Any]:
    described = {"version": "1", "models": {"proposer": "scripted"}, "licence": "CC BY 4.0", "evaluation": {}}
    return write_release(folder, lineages, **(described | more))


def test_evolved_tasks_load_and_pass_their_own_tests(lineages: list[Lineage], judge: Judge, tmp_path: Path) -> None:
    release(tmp_path, lineages)
    (task,) = livecodebench.read(tmp_path / "evolved.jsonl")
    assert judge.judge(task.reference, task.tests).passed
    record = json.loads((tmp_path / "evolved.jsonl").read_text())
    assert record["platform"] == "atcoder"  # LiveCodeBench's loader knows its platforms only
    assert record["difficulty"] == "medium"  # 0.6 of the attempts fail
    assert set(record) == set(livecodebench.FIELDS)  # its loader takes no others
    assert (task.source["lineage"]["seed"], task.source["lineage"]["accuracy"]) == ("first", 0.4)
    assert task.difficulty == "0.600"


def test_the_manifest_counts(lineages: list[Lineage], tmp_path: Path) -> None:
    report = release(tmp_path, lineages, evaluation={"near": [STATEMENT], "far": ["Sort the names of all cities."]})
    assert report["seeds"]["given"] == 3
    assert list(report["seeds"]["unsound"]) == ["bad"]
    assert (report["seeds"]["measured"], report["seeds"]["saturated"], report["seeds"]["evolved"]) == (2, 1, 1)
    assert (report["accepted"], report["attempts"]) == (1, 2)
    assert sum(report["rejected"].values()) == 1
    assert report["accuracy"]["seeds_of_accepted"] == 1.0
    assert report["accuracy"]["by_model"] == {"target": 0.4}
    assert report["contamination"] == {
        "near": {"n-gram": ["first.e1"], "minhash": []},
        "far": {"n-gram": [], "minhash": []},
    }
    written = json.loads((tmp_path / "manifest.json").read_text())
    assert written["sha256"]["evolved.jsonl"] == hashlib.sha256((tmp_path / "evolved.jsonl").read_bytes()).hexdigest()
    assert written["licence"] == "CC BY 4.0"
    assert written["attribution"] == [{"seed": "first", "platform": "atcoder"}]


def test_plus_takes_good_and_hard_tasks_and_hard_originals(lineages: list[Lineage], tmp_path: Path) -> None:
    report = release(tmp_path, lineages, scores={"first.e1": 4})
    assert [t.task_id for t in livecodebench.read(tmp_path / "plus.jsonl")] == ["first.e1", "half"]
    assert (report["plus"]["evolved"], report["plus"]["originals"]) == (1, 1)
    assert report["plus"]["pass_at_1"] == pytest.approx(0.4)
    for scores, config, why in (
        ({"first.e1": 2}, PlusConfig(), "quality below 3"),
        ({}, PlusConfig(), "no quality score"),
        ({"first.e1": 5}, PlusConfig(high=0.3), "pass@1 outside the window"),
    ):
        _, left_out = plus(lineages, scores, config)
        assert left_out == {why: 1}


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("Fine. <score>4</score>", 4),
        ("<score>9</score>", None),
        ("4", None),
        ("down", None),
        ("<score>3.5</score>", None),
    ],
)
def test_a_rubric_score_is_read_or_missing(reply: str, score: int | None, tmp_path: Path) -> None:
    models = models_of(Scripted(quality=lambda call, n: reply), tmp_path)
    assert asyncio.run(quality(models, Full(), seed())) == score


def test_entropy_by_hand() -> None:
    assert entropy({}) == 0.0
    assert entropy({"a": 5}) == 0.0
    assert entropy({"a": 1, "b": 1}) == 1.0
    assert entropy({"a": 2, "b": 1, "c": 1}) == 1.5
