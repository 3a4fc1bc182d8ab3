"""Metrics, rollouts, summaries and JSON: what is written comes back, and bad files are named with their line."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfplay.runs.ending import gist
from selfplay.runs.files import RunDirError, plain, to_json, write_atomic
from selfplay.runs.metrics import MetricsLog, read_metrics
from selfplay.runs.rollouts import Rollout, RolloutWriter, describe, read_rollouts
from selfplay.runs.summary import EvalScore, ExitCode, Status, Summary, read_summary, write_summary


def steps(path: Path) -> list[int]:
    return [record["step"] for record in read_metrics(path)]


def test_metrics_are_one_object_a_step(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.append(1, {"reward": 0.25, "pool": np.int64(60), "loss": float("nan"), "reasons": {"format": 2}})
    log.close()
    assert (tmp_path / "metrics.jsonl").read_text() == (
        '{"step": 1, "reward": 0.25, "pool": 60, "loss": null, "reasons": {"format": 2}}\n'
    )


def test_truncation_drops_later_steps_and_appending_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path)
    for step in (1, 2, 3, 4):
        log.append(step, {"text": "a\u2028b\x85c"})  # characters that str.splitlines takes for line ends
    assert log.truncate_after(2) == 2
    assert steps(path) == [1, 2]
    log.append(3, {})
    log.close()
    assert steps(path) == [1, 2, 3]
    again = MetricsLog(path)
    assert again.truncate_after(0) == 3
    again.close()
    assert path.read_text() == ""


@given(st.integers(min_value=0, max_value=60))
def test_a_torn_last_line_is_cut_wherever_it_broke(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("torn") / "metrics.jsonl"
    whole = '{"step": 1, "note": "é"}\n{"step": 2, "note": "zwölf"}\n'.encode()
    torn = whole[: len(whole) - min(cut, len(whole))]
    path.write_bytes(torn)
    log = MetricsLog(path)
    log.append(9, {})
    log.close()
    assert steps(path) == [*range(1, torn.count(b"\n") + 1), 9]


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\nnonsense\n')
    with pytest.raises(RunDirError, match=r"metrics\.jsonl:2: not a step's metrics"):
        list(read_metrics(path))


def test_rollouts_come_back_and_read_well(tmp_path: Path) -> None:
    writer = RolloutWriter(tmp_path)
    rollout = Rollout("u1_0_1", "solver", "u1/0", "ensures r >= x", "{\n  r := x;\n}", "refuted", 0.0, -1.0, "x = -1")
    path = writer.write(12, [rollout])
    assert path.name == "step_000012.jsonl"
    assert list(read_rollouts(path)) == [rollout]
    text = describe(rollout)
    assert text.splitlines()[0] == "u1_0_1  solver  refuted  reward 0.000  advantage -1.000"
    assert "  why: x = -1" in text.splitlines()
    assert "      r := x;" in text.splitlines()
    writer.write(13, [])
    writer.truncate_after(12)
    assert [entry.name for entry in tmp_path.iterdir()] == ["step_000012.jsonl"]


def test_a_bad_rollout_is_named(tmp_path: Path) -> None:
    path = tmp_path / "step_000001.jsonl"
    path.write_text('{"key": "a"}\n')
    with pytest.raises(RunDirError, match=r"step_000001\.jsonl:1: not a rollout"):
        list(read_rollouts(path))


def test_a_summary_has_the_documented_fields_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    assert read_summary(path) is None
    summary = Summary(
        seed=3,
        status=Status.FINISHED,
        steps=40,
        seconds=12.5,
        before=EvalScore(
            0.25, 400, (0.21, 0.295), (0.1, 0.4), {"1": 0.25, "5": 0.5}, {"mbpp": EvalScore(0.1, 8, (0, 0.4))}
        ),
        throughput={"tokens_per_s": 900.0},
        timing_s={"update": 3.0},
        warmup=[{"round": 0, "q_valid": 0.5}],
        gain={"mean": 0.1, "low": 0.0, "high": 0.2},
    )
    write_summary(path, summary)
    data = json.loads(path.read_text())
    assert {"status", "seed", "steps", "seconds", "eval", "throughput", "timing_s"} <= data.keys()
    assert data["eval"]["before"] | {"suites": {}} == {
        "pass_at_1": 0.25,
        "n": 400,
        "interval": [0.21, 0.295],
        "by_problem": [0.1, 0.4],
        "pass_at_k": {"1": 0.25, "5": 0.5},
        "suites": {},
    }
    assert data["eval"]["after"] is None
    assert data["eval"]["gain"]["mean"] == 0.1
    assert read_summary(path) == summary


def test_a_broken_summary_is_named(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_text('{"status": "resting"}')
    with pytest.raises(RunDirError, match=r"summary\.json: not a run's summary"):
        read_summary(path)


@pytest.mark.parametrize(
    ("code", "status"),
    [(0, "finished"), (1, "failed"), (2, "bad_config"), (3, "stalled"), (4, "worker_lost"), (130, "interrupted")],
)
def test_each_exit_code_has_its_status(code: int, status: str) -> None:
    assert Status.of(code) == status
    assert int(ExitCode[status.upper()]) == code


def test_a_foreign_exit_code_counts_as_failed() -> None:
    assert Status.of(137) is Status.FAILED


@given(st.floats(), st.integers(), st.booleans(), st.text('aé\u2028\x85\x00"\\\n\U0001f4a1', max_size=9))
def test_json_is_strict_and_keeps_values(real: float, whole: int, flag: bool, text: str) -> None:
    back = json.loads(to_json({"r": np.float64(real), "w": whole, "f": flag, "t": text}), parse_constant=pytest.fail)
    assert back == {"r": real if math.isfinite(real) else None, "w": whole, "f": flag, "t": text}


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot be written as JSON"):
        plain({"a": object()})


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_atomic(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomic(path, "\ud800")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]


def test_a_remote_traceback_becomes_its_last_line() -> None:
    trace = "ray::generate()\n" + '  File "x.py", line 3, in get\n' * 40 + "RuntimeError: no memory\n"
    assert gist(trace) == "RuntimeError: no memory"
    assert gist("two\n short  lines") == "two short  lines"
    assert gist("") == ""
    assert len(gist("x" * 5000)) == 300
