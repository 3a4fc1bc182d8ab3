"""From the names of suites and benchmarks to questions and the exams that put them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from selfplay.benchmarks.benchmark import Benchmark, Item
from selfplay.benchmarks.catalogue import SUITES
from selfplay.benchmarks.code_task import CodeTask
from selfplay.benchmarks.math_answers import MathAnswers
from selfplay.benchmarks.scicode import with_targets
from selfplay.benchmarks.sources import NoData, Window, load
from selfplay.config.errors import ConfigError, nearest
from selfplay.evaluation.config import EvaluateConfig
from selfplay.evaluation.exams import ChoiceExam, CodeExam, Exam, MathExam, ProofExam, TextExam
from selfplay.evaluation.subject import Subject
from selfplay.runs.files import to_json
from selfplay.sandbox.judge.judge import Judge
from selfplay.sandbox.python.result import SandboxError
from selfplay.sandbox.registry import build_prover

MICRO = ("micro_ancora", "micro_anchorloop", "micro_benchevolver")


@dataclass(frozen=True)
class Paper:
    """A benchmark ready to be put: its questions, how they are asked and scored, and how often."""

    name: str
    suite: str
    exam: Exam
    items: list[Item]
    samples: int
    temperature: float
    source: str
    checksum: str


@dataclass
class Scorers:
    """What scores, made when the first benchmark needs it."""

    config: EvaluateConfig
    style: str
    made: dict[str, Any] = field(default_factory=dict)

    def get(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self.made:
            self.made[name] = make()
        return self.made[name]

    @property
    def answers(self) -> MathAnswers:
        return self.get("answers", MathAnswers)

    @property
    def judge(self) -> Judge:
        return self.get("judge", lambda: Judge(self.config.judge))

    def close(self) -> None:
        for scorer in self.made.values():
            getattr(scorer, "close", lambda: None)()


def named(names: Sequence[str]) -> list[tuple[str, str]]:
    """(suite, benchmark) for every benchmark that the names stand for, each once.

    Raises:
        ConfigError: a name is neither a suite's nor a benchmark's.
    """
    by_suite = {suite: [one.name for one in members] for suite, members in SUITES.items()} | {"micro": list(MICRO)}
    owner = {name: suite for suite, members in by_suite.items() for name in members}
    out: dict[tuple[str, str], None] = {}
    for name in names:
        if name not in by_suite and name not in owner:
            known = [*by_suite, *owner]
            allowed = f"a suite ({', '.join(by_suite)}) or a benchmark of one"
            raise ConfigError(f"suites: {name!r} is not allowed; it is {allowed}{nearest(name, known)}")
        for member in by_suite.get(name, [name]):
            out[owner[member], member] = None
    return list(out)


def papers(config: EvaluateConfig, subject: Subject, scorers: Scorers) -> Iterator[Paper | str]:
    """Every wanted benchmark, or the line that says why there is none.

    Raises:
        ConfigError: a name is unknown.
        BadData: a record cannot be read; names file and line.
    """
    by_name = {one.name: (suite, one) for suite, members in SUITES.items() for one in members}
    for suite, name in named(config.suites):
        try:
            if suite == "micro":
                paper = _micro(name, config, subject, scorers)
            else:
                paper = _published(*by_name[name], config, subject, scorers)
        except (NoData, SandboxError, FileNotFoundError) as error:
            yield str(error) if str(error).startswith(name) else f"{name}: {error}"
            continue
        yield replace(
            paper,
            items=paper.items[: config.limit or None],
            samples=config.samples or paper.samples,
            temperature=config.temperature if config.temperature >= 0 else paper.temperature,
        )


def _published(suite: str, benchmark: Benchmark, config: EvaluateConfig, subject: Subject, scorers: Scorers) -> Paper:
    missing = [package for package in benchmark.packages if package not in config.judge.packages]
    if missing:
        wanted = ",".join(benchmark.packages)
        raise NoData(f"{benchmark.name}: its programs import {' and '.join(missing)}: judge.packages=[{wanted}]")
    data = config.data
    found = load(
        benchmark,
        data.dir,
        revision=data.revision.get(benchmark.name, ""),
        offline=not data.hub,
        window=Window(data.since, data.until),
    )
    exam = _exam(benchmark.kind, config, subject, scorers)
    items = found.items
    if benchmark.name == "scicode":
        items = list(_with_targets(items[: config.limit or None], scorers.judge))
    how = benchmark.samples, benchmark.temperature
    return Paper(benchmark.name, suite, exam, items, *how, found.where, found.checksum)


def _exam(kind: str, config: EvaluateConfig, subject: Subject, scorers: Scorers) -> Exam:
    style = subject.style
    if kind == "math":
        own = config.wording == "anchorloop" or (config.wording == "auto" and subject.anchorloop)
        return MathExam(scorers.answers, "anchorloop" if own else "plain", style, config.tool.use)
    if kind == "choice":
        return ChoiceExam(scorers.answers)
    if kind == "text":
        return TextExam()
    if kind == "code":
        return CodeExam(scorers.judge, "full")
    return ProofExam(scorers.get("verus", lambda: build_prover(config.verus)), "full", "Verus")


def _with_targets(items: Sequence[Item], judge: Judge) -> Iterator[Item]:
    """SciCode's steps with the values that their references give; a step left without a test is left out."""
    for item in items:
        task: CodeTask = item.payload
        tests = with_targets(judge, task.reference, task.hidden)
        if tests:
            yield replace(item, payload=replace(task, hidden=tuple(tests)))


# ---------------------------------------------------------------- the project's own


def _micro(name: str, config: EvaluateConfig, subject: Subject, scorers: Scorers) -> Paper:
    exam, items = _MICRO[name](config, subject, scorers)
    content = "".join(to_json({"id": item.item_id, "question": item.question, "gold": item.gold}) for item in items)
    checksum = hashlib.sha256(content.encode()).hexdigest()
    return Paper(name, "micro", exam, items, 4, 1.0, "shipped", checksum)


def _micro_ancora(config: EvaluateConfig, subject: Subject, scorers: Scorers) -> tuple[Exam, list[Item]]:
    from selfplay.curriculum.roots import load_roots

    roots = load_roots(Path(str(files("selfplay.algos.ancora") / "roots" / "heldout.jsonl")))
    prover = scorers.get("dafny_lite", lambda: build_prover(config.dafny_lite))
    return ProofExam(prover, subject.style, "Dafny"), [Item(r.name, r.spec, payload=r.spec) for r in roots]


def _micro_anchorloop(config: EvaluateConfig, subject: Subject, scorers: Scorers) -> tuple[Exam, list[Item]]:
    from selfplay.algos.anchorloop import micro

    items = [Item(f"{place:03d}", p.question, str(p.answer)) for place, p in enumerate(micro.heldout())]
    return MathExam(scorers.answers, "anchorloop", subject.style, True, always=True), items


def _micro_benchevolver(config: EvaluateConfig, subject: Subject, scorers: Scorers) -> tuple[Exam, list[Item]]:
    from selfplay.algos.benchevolver import micro

    items = [Item(task.task_id, task.statement, payload=task) for task in micro.heldout()]
    return CodeExam(scorers.judge, subject.style), items


_MICRO = dict(zip(MICRO, (_micro_ancora, _micro_anchorloop, _micro_benchevolver), strict=True))
