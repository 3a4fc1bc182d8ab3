"""An evaluation from its settings to its results: every sample once, whatever interrupts it.

A folder holds `settings.json` (what the results depend on), `samples/<benchmark>.jsonl` (a line a sample, written as
soon as it is scored) and `results.json`. The same settings go to the same folder and go on there.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from selfplay.algos.anchorloop.config import RolloutSizes
from selfplay.algos.benchevolver.models import CallFailed, EndpointRefused
from selfplay.backbones.cache import content_hash
from selfplay.benchmarks.benchmark import Item
from selfplay.config.errors import ConfigError
from selfplay.engine.errors import EngineError
from selfplay.engine.sampling import render
from selfplay.engine.serving import ModelServer
from selfplay.evaluation.config import EvaluateConfig
from selfplay.evaluation.respondents import Asked, Remote, Respondent, SampleFailed, Served
from selfplay.evaluation.results import benchmark_result, suite_results
from selfplay.evaluation.subject import Subject, tokenizer_of
from selfplay.evaluation.suites import Paper
from selfplay.runs.append_log import AppendLog
from selfplay.runs.files import to_json, write_atomic
from selfplay.sandbox.judge.judge import JudgeError

Say = Callable[[str], None]
# What says nothing about the other samples; JudgeError: a task's own tests are broken.
NOT_SCORED = (CallFailed, EndpointRefused, SampleFailed, JudgeError)
OF_ONE_SAMPLE = (400, 413, 422)  # refusals of a request, not of the one who asks
LEAST_ANSWER = 16  # tokens: with less room than that a question is too long
GIVE_UP = 20  # samples in a row without a score


@dataclass(frozen=True)
class Work:
    """One sample to draw."""

    paper: Paper
    item: Item
    sample: int


def identity(config: EvaluateConfig, subject: Subject) -> dict[str, Any]:
    """What samples depend on, and nothing that they do not: the limit and the suites may change. The questions and how
    they are worded are checked against the samples that are there."""
    return {
        "weights": subject.identity,
        "style": subject.style,
        "wording": config.wording,
        "tool": asdict(config.tool),
        "top_p": config.top_p,
        "temperature": config.temperature,
        "max_prompt_tokens": config.max_prompt_tokens,
        "max_tokens": config.max_tokens,
        "seed": config.seed,
        "dtype": config.cluster.rollout.dtype,
        "device": config.cluster.device,
        "python": asdict(config.python),
        "judge": asdict(config.judge),
        "provers": [asdict(config.dafny_lite), asdict(config.verus)],
    }


def folder_of(config: EvaluateConfig, subject: Subject) -> Path:
    """Where the results go: a name for people, and a hash of what they depend on."""
    key = content_hash(identity(config, subject))[:8]
    name = config.name or re.sub(r"[^A-Za-z0-9._-]+", "-", subject.name).strip("-.") or "model"
    return Path(config.output_dir).expanduser().absolute() / f"{name}-{key}"


class Evaluation:
    """Draws and scores what is missing in `folder`."""

    def __init__(
        self, config: EvaluateConfig, subject: Subject, papers: Sequence[Paper], folder: Path, say: Say
    ) -> None:
        self.config, self.subject, self.papers, self.folder, self.say = config, subject, list(papers), folder, say
        self.records: dict[str, list[dict[str, Any]]] = {}
        self.failed = self._in_a_row = 0  # samples without a score
        self._logs: dict[str, AppendLog] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Evaluation:
        """Take the folder. Raises ConfigError if another evaluation has it, or a file of it is damaged."""
        from filelock import FileLock, Timeout

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._stack.enter_context(FileLock(self.folder / ".lock", timeout=0))
            settings = identity(self.config, self.subject) | {"model": self.subject.name}
            write_atomic(self.folder / "settings.json", to_json(settings, indent=1))
            for paper in self.papers:
                log = AppendLog(self.folder / "samples" / f"{paper.name}.jsonl")
                self._stack.callback(log.close)
                self._logs[paper.name], self.records[paper.name] = log, log.records
                self._same_data(paper)
        except Timeout as error:
            self._stack.close()
            raise ConfigError(f"{self.folder}: another evaluation works in it") from error
        except (ValueError, KeyError, OSError) as error:
            self._stack.close()
            what = f"no field {error}" if isinstance(error, KeyError) else str(error)
            raise ConfigError(f"{self.folder}: {what}") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _same_data(self, paper: Paper) -> None:
        """Raise ValueError where the samples are of another version of the data."""
        path, items = self.folder / "samples" / f"{paper.name}.jsonl", {item.item_id: item for item in paper.items}
        for record in self.records[paper.name]:
            if record["checksum"] != paper.checksum:
                raise ValueError(f"{path}: its samples are of other data; give a name= of its own")
        for record in self.records[paper.name][:1]:
            item = items.get(record["item"])
            if item is not None and record["prompt"] != [dict(message) for message in paper.exam.ask(item)]:
                raise ValueError(f"{path}: its samples were asked in other words; give a name= of its own")

    def missing(self) -> list[Work]:
        """What is wanted and not there yet."""
        out = []
        for paper in self.papers:
            done = {(record["item"], record["sample"]) for record in self.records[paper.name]}
            out += [
                Work(paper, item, sample)
                for item in paper.items
                for sample in range(paper.samples)
                if (item.item_id, sample) not in done
            ]
        return out

    # ---------------------------------------------------------------- drawing

    def draw(self, respondent: Respondent, work: Sequence[Work], check: Callable[[], None]) -> None:
        """Draw and score `work`; every sample is kept as soon as it is scored.

        Raises:
            KeyboardInterrupt: Ctrl-C or SIGTERM.
            EngineError: `check` says that the server is gone, or nothing was scored for `cluster.watchdog.stall_s`.
        """
        try:
            asyncio.run(self._draw(respondent, work, check))
        except EngineError:
            time.sleep(0.5)  # a server that has just died is not yet known to have
            check()  # its own last words say more
            raise

    async def _draw(self, respondent: Respondent, work: Sequence[Work], check: Callable[[], None]) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, signal.raise_signal, signal.SIGINT)
        meter = Meter(len(work), self.say)
        todo = iter(work)
        watch = asyncio.create_task(self._watch(meter, check))
        workers = [asyncio.create_task(self._worker(respondent, todo, meter)) for _ in range(self.config.at_once)]
        try:
            waiting: set[asyncio.Task[None]] = {watch, *workers}
            while waiting != {watch}:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    one.result()
        finally:
            for task in (watch, *workers):
                task.cancel()
            await asyncio.gather(watch, *workers, return_exceptions=True)
            await respondent.close()
        meter.show(force=True)

    async def _worker(self, respondent: Respondent, todo: Iterator[Work], meter: Meter) -> None:
        for work in todo:
            try:
                record = await self._sample(respondent, work)
            except NOT_SCORED as error:
                self._skip(work, error)
                continue
            self._in_a_row = 0
            self._logs[work.paper.name].append(record)
            self.records[work.paper.name].append(record)
            meter.done(bool(record["correct"]))

    def _skip(self, work: Work, error: Exception) -> None:
        """Leave a sample out and go on; raise `error` where it is no single sample's."""
        self.failed += 1
        self._in_a_row += 1
        everywhere = isinstance(error, EndpointRefused) and error.status not in OF_ONE_SAMPLE
        if everywhere or self._in_a_row >= GIVE_UP:
            raise error
        if self.failed <= 5:
            said = " ".join(str(error).split())[:160]
            self.say(f"not scored: {work.paper.name} {work.item.item_id}: {type(error).__name__}: {said}")

    async def _sample(self, respondent: Respondent, work: Work) -> dict[str, Any]:
        paper, item, config = work.paper, work.item, self.config
        messages = paper.exam.ask(item)
        turns = config.tool.turns if config.tool.use or paper.exam.tool else 0
        asked = Asked(
            messages,
            RolloutSizes(config.max_tokens, turns, config.tool.output_tokens),
            paper.temperature,
            config.top_p,
            (config.seed, paper.name, item.item_id, work.sample),
        )
        started = time.monotonic()
        response = await respondent.answer(asked)
        seconds = time.monotonic() - started
        score = await asyncio.to_thread(paper.exam.score, item, response.own, response.finished)
        return {
            "item": item.item_id,
            "sample": work.sample,
            "correct": score.correct,
            "verdict": score.verdict,
            "extracted": score.extracted,
            "gold": item.gold,
            "prompt": [dict(message) for message in messages],
            "output": response.text,
            "finished": response.finished,
            "tokens": response.tokens,
            "calls": response.calls,
            "seconds": round(seconds, 3),
            "detail": score.detail,
            "checksum": paper.checksum,
        }

    async def _watch(self, meter: Meter, check: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(1.0)
            check()
            meter.show()
            if not self.config.remote and meter.idle_s() > self.config.cluster.watchdog.stall_s:
                limit = self.config.cluster.watchdog.stall_s
                raise EngineError(f"no answer for {limit:g} s (cluster.watchdog.stall_s)")

    # ---------------------------------------------------------------- results

    def results(self, wanted: dict[str, str]) -> dict[str, Any]:
        """Write `results.json` and return it: by benchmark, and each suite's mean. `wanted`: benchmark to suite."""
        found = {}
        for paper in self.papers:
            names = {item.item_id for item in paper.items}
            mine = [r for r in self.records[paper.name] if r["item"] in names and r["sample"] < paper.samples]
            if mine:
                result = benchmark_result(mine, paper.samples, len(paper.items))
                found[paper.name] = {"suite": paper.suite, "source": paper.source, "checksum": paper.checksum, **result}
        out = {"model": self.subject.name, "benchmarks": found, "suites": suite_results(found, wanted)}
        write_atomic(self.folder / "results.json", to_json(out, indent=1))
        return dict(json.loads((self.folder / "results.json").read_text(encoding="utf-8")))


class Meter:
    """How far it is, said every few seconds with the time left."""

    EVERY_S, RECENT = 5.0, 200

    def __init__(self, total: int, say: Say) -> None:
        self.total, self.say = total, say
        self.count = self.right = 0
        self._times: deque[float] = deque([time.monotonic()], maxlen=self.RECENT)
        self._said = time.monotonic()

    def done(self, right: bool) -> None:
        self.count += 1
        self.right += right
        self._times.append(time.monotonic())

    def idle_s(self) -> float:
        return time.monotonic() - self._times[-1]

    def show(self, force: bool = False) -> None:
        now = time.monotonic()
        if not self.count or (not force and now - self._said < self.EVERY_S):
            return
        self._said = now
        each = (now - self._times[0]) / max(1, len(self._times) - 1)
        left = each * (self.total - self.count)
        self.say(f"{self.count}/{self.total} samples  {self.right / self.count:.1%} right  {_clock(left)} left")


def _clock(seconds: float) -> str:
    from selfplay.runs.progress import clock

    return clock(seconds)


def context_of(subject: Subject) -> int:
    """Tokens that the model's positions reach; 0 where its folder does not say."""
    path = Path(subject.path) / "config.json"
    if not path.is_file():
        return 0
    return int(json.loads(path.read_text(encoding="utf-8")).get("max_position_embeddings") or 0)


def check_lengths(work: Sequence[Work], tokenizer: Any, limit: int) -> None:
    """Raise ConfigError where a question has more than `limit` tokens: before anything is started."""
    seen: set[tuple[str, str]] = set()
    for one in work:
        name = one.paper.name, one.item.item_id
        if name in seen:
            continue
        seen.add(name)
        tokens = len(render(tokenizer, one.paper.exam.ask(one.item)))
        if tokens > limit:
            raise ConfigError(
                f"max_prompt_tokens: {limit} is not allowed; question {name[1]!r} of {name[0]} takes {tokens}"
            )


def ask_served(evaluation: Evaluation, work: Sequence[Work], python: Any) -> None:
    """Serve the subject here and draw `work` from it.

    Raises:
        ConfigError: its tokenizer cannot be loaded, or a question is too long.
        EngineError: the server does not start, or is lost.
    """
    config, subject, say = evaluation.config, evaluation.subject, evaluation.say
    trust = config.backbone.trust_remote_code
    tokenizer = tokenizer_of(subject, trust)
    check_lengths(work, tokenizer, config.max_prompt_tokens)
    longest = config.max_prompt_tokens + config.max_tokens
    holds = context_of(subject)
    if holds and longest > holds:
        most = max((len(render(tokenizer, one.paper.exam.ask(one.item))) for one in work), default=0)
        if holds - most < LEAST_ANSWER:
            raise ConfigError(
                f"max_prompt_tokens: the longest question takes {most} of the {holds} tokens of the model"
            )
        say(f"the model holds {holds} tokens: an answer has {min(config.max_tokens, holds - most)} of them at most")
        config.max_tokens, longest = min(config.max_tokens, holds - most), holds
    said = -1

    def beat(waited: float) -> None:
        nonlocal said
        if waited >= 2 and int(waited) // 5 != said:
            said = int(waited) // 5
            say(f"starting the server  {_clock(waited)}")

    with ModelServer(subject.path, config.cluster, longest, evaluation.folder / "server.log", trust) as server:
        server.wait(beat)
        served = Served(subject.name, server.url, server.key, subject.path, tokenizer, python)
        evaluation.draw(served, work, server.check_alive)


def ask_endpoint(evaluation: Evaluation, work: Sequence[Work], python: Any) -> None:
    """Draw `work` from the endpoint. Raises CallFailed or EndpointRefused."""
    evaluation.draw(Remote(evaluation.config.endpoint, python), work, lambda: None)
