"""The arithmetic of `scripts/bench.py`, and its fixed task; what it measures is seen by running it."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import bench  # noqa: E402
import bench_episode  # noqa: E402
import bench_probe  # noqa: E402
import bench_runs  # noqa: E402
import bench_trainers  # noqa: E402

from selfplay.engine.episode import Sample  # noqa: E402


def stamp(t: float, what: str, end: bool = True) -> dict[str, Any]:
    return {"t": t, "what": what, "end": end}


def step(began: float, ended: float) -> list[dict[str, Any]]:
    return [stamp(began, "session step", end=False), stamp(ended, "session step")]


def test_the_first_steps_are_left_out() -> None:
    ends = [(10.0, 5.0), (20.0, 6.0), (25.0, 7.0), (27.0, 8.0), (28.0, 10.0), (29.5, 13.0)]
    found = bench_trainers.steady("ours", ends, [7] * 6)
    assert found.step_s == [1.0, 1.5]  # of the fifth and sixth
    assert found.cpu_s == [2.0, 3.0]
    assert found.tokens == [7, 7]


def test_steps_without_a_count_are_refused() -> None:
    with pytest.raises(ValueError, match="6 steps ended, 5 were counted"):
        bench_trainers.steady("ours", [(float(i), 0.0) for i in range(6)], [1] * 5)
    with pytest.raises(ValueError, match="too few"):
        bench_trainers.steady("ours", [(float(i), 0.0) for i in range(4)], [1] * 4)


def test_a_launch_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="there is no trainer 'theirs'"):
        bench_trainers.measure("theirs", bench_trainers.Shape(), tmp_path / "launch")


def test_a_steps_seconds_are_parted() -> None:
    phases = {"timing/generate": 1.0, "timing/update": 0.5}
    stamps = [
        *step(0.0, 2.0),
        stamp(2.5, "session save", end=False),
        stamp(2.75, "session save"),
        *step(3.0, 4.75),
    ]
    found = bench_runs.overhead(stamps, [phases, phases])
    assert found.steps == 1
    assert found.wall == 2.75
    assert found.phases == 1.5
    assert found.glue == 0.25
    assert found.saving == 0.25
    assert found.driver == 0.75
    assert found.phases + found.glue + found.saving + found.driver == found.wall


def test_a_step_after_other_sampling_does_not_count() -> None:
    line = {"timing/generate": 1.0}
    stamps = [
        *step(0, 1),
        stamp(2, "session run_all", end=False),
        stamp(9, "session run_all"),
        *step(9, 10),
        *step(11, 12),
    ]
    assert bench_runs.overhead(stamps, [line] * 3).wall == 2
    with pytest.raises(ValueError, match="no two steps"):
        bench_runs.overhead(stamps[:-2], [line] * 2)


def test_milestones_are_the_first_of_their_kind() -> None:
    stamps = [stamp(float(i), what, end) for i, (_, what, end) in enumerate(bench_runs.MILESTONES)]
    found = bench_runs.milestones([*stamps, stamp(99.0, "weights")])
    assert list(found.values()) == [float(i) for i in range(len(stamps))]
    with pytest.raises(ValueError, match="first request answered"):
        bench_runs.milestones(stamps[:-1])


def test_memory_keeps_the_peak_of_each_kind_and_of_the_whole() -> None:
    memory = bench_runs.Memory()
    memory.add([("rank", 100, 60), ("rank", 100, 60), ("driver", 50, 50)])
    memory.add([("rank", 150, 90), ("driver", 90, 70)])
    assert memory.rss == {"rank": 200, "driver": 90}
    assert memory.pss == {"rank": 120, "driver": 70}
    assert memory.processes == {"rank": 2, "driver": 1}
    assert memory.total_pss == 170


def test_processes_are_seen_with_their_children() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; x = bytearray(2**26); time.sleep(60)", "ray::IDLE"])
    try:
        deadline, found = time.monotonic() + 10, 0.0
        while found < 64 and time.monotonic() < deadline:
            rows = bench_runs.sample_memory(psutil.Process(os.getpid()))
            found = max((pss for kind, _, pss in rows if kind == "idle Ray worker"), default=0.0)
        assert found >= 64
    finally:
        child.kill()
        child.wait()


def test_stamps_keep_results_and_order(tmp_path: Path) -> None:
    class Owner:
        def method(self, x: int) -> int:
            return x + 1

        @classmethod
        def build(cls, x: int) -> tuple[type, int]:
            return cls, x

    path = tmp_path / "stamps.jsonl"
    stamps = bench_probe.Stamps(path)
    called: list[str] = []
    stamps.around(Owner, "method", "m", then=lambda: called.append("then"))
    stamps.around(Owner, "build", "b")
    assert Owner().method(1) == 2
    assert Owner.build(3) == (Owner, 3)
    assert called == ["then"]
    lines = [bench_runs.json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["what"], line["end"]) for line in lines] == [("m", False), ("m", True), ("b", False), ("b", True)]
    assert lines == sorted(lines, key=lambda line: line["t"])


class Letters:
    """A sampler that writes as many letters as it may."""

    def __init__(self) -> None:
        self.defaults: dict[str, Any] = {}

    def render(self, messages: Sequence[dict[str, str]]) -> list[int]:
        return [len(messages[0]["content"])]

    async def sample(self, prompt_ids: list[int], *, max_tokens: int, key: Sequence[Any], **_: Any) -> Sample:
        assert self.defaults["ignore_eos"]  # or answers would end early
        return Sample([1] * max_tokens, [0.0] * max_tokens, "ab" * max_tokens, finished=False)


def test_both_trainers_get_the_same_task_and_reward() -> None:
    (row,) = asyncio.run(bench_episode.build({"tokens": 5}).run({"text": "1 + 1"}, 0, "u", Letters()))  # type: ignore[arg-type]
    assert len(row.response_ids) == 5
    assert row.reward == bench_episode.compute_score("bench", "ab" * 5, "") == 1.0
    assert bench_episode.compute_score("bench", "a1", "") == 0.5


def test_advantages_are_relative_to_the_group() -> None:
    class View:
        def __init__(self, group: str, reward: float) -> None:
            self.group, self.reward = group, reward

    found = bench_episode.group_relative([View("a", 0.0), View("a", 1.0), View("b", 0.3), View("b", 0.3)])
    assert found == pytest.approx([-1.0, 1.0, 0.0, 0.0], abs=1e-4)


def test_only_known_parts() -> None:
    assert bench.chosen("memory, trainer") == ["trainer", "memory"]
    with pytest.raises(argparse.ArgumentTypeError, match="trainer, drivers"):
        bench.chosen("speed")


def test_a_ratio_says_how_much_faster_ours_is() -> None:
    ours = bench_trainers.Measured("ours", [1.0, 2.0, 3.0], [4.0] * 3, [100] * 3)
    assert bench.typical([ours]) == 2.0
    value, note = bench.speeds([ours])
    assert value == "50 tokens/s"
    assert "0.500 steps/s" in note
    assert "4.00 processor seconds" in note


def test_the_processor_time_of_children_counts() -> None:
    code = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        before = bench_trainers.clocks(os.getpid())[1]
        assert child.stdout is not None
        child.stdout.readline()
        assert bench_trainers.clocks(os.getpid())[1] - before > 0.3
    finally:
        child.kill()
        child.wait()
