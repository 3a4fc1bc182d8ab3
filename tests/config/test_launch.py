"""From the command to the end of a run, with a system that only counts in the place of `ancora`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from selfplay.algos import ALGORITHMS
from selfplay.config.errors import ConfigError
from selfplay.config.schema import Config
from selfplay.runs.interrupt import Interrupted
from selfplay.runs.rundir import RunDir
from selfplay.runs.summary import Status, read_summary, write_summary
from selfplay.train import main

ENDINGS: dict[str, Exception] = {
    "bad-data": ConfigError("roots.jsonl:3: no ensures"),
    "breaks": RuntimeError("out of\nmemory"),
    "stopped": Interrupted("stopped on request"),
}


def run(config: Config, run_dir: RunDir) -> int:
    """One step a launch; `name` says how a launch ends. Writes what `ancora` writes."""
    summary = read_summary(run_dir.summary)
    assert summary is not None
    summary.steps += 1
    write_summary(run_dir.summary, summary)
    if config.name in ENDINGS:
        raise ENDINGS[config.name]
    if config.name.startswith("code-"):
        return int(config.name.removeprefix("code-"))
    return 0 if summary.steps >= config.algo.steps else 4


@pytest.fixture
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(ALGORITHMS, "ancora", f"{__name__}:run")
    return tmp_path / "outputs"


def launch(outputs: Path, *overrides: str) -> int:
    return main([f"output_dir={outputs}", *overrides])


def directories(outputs: Path) -> list[Path]:
    return sorted((outputs / "ancora").iterdir())


@pytest.mark.parametrize(
    ("name", "code", "status", "line"),
    [
        ("code-0", 0, Status.FINISHED, ""),
        ("code-3", 3, Status.STALLED, "stalled (log: "),
        ("bad-data", 2, Status.BAD_CONFIG, "error: roots.jsonl:3: no ensures\n"),
        ("breaks", 1, Status.FAILED, "failed: RuntimeError: out of memory (log: "),
        ("stopped", 130, Status.INTERRUPTED, "interrupted: stopped on request (log: "),
    ],
)
def test_each_ending_has_its_code_status_and_line(
    outputs: Path, capsys: pytest.CaptureFixture[str], name: str, code: int, status: Status, line: str
) -> None:
    assert launch(outputs, f"name={name}") == code
    (path,) = directories(outputs)
    summary = read_summary(path / "summary.json")
    assert summary is not None
    assert (summary.status, summary.steps) == (status, 1)
    err = capsys.readouterr().err
    assert err.startswith(line)
    assert (f"continue with: python -m selfplay.train resume={path}" in err) == (code not in (0, 2))
    if name == "breaks":
        assert "Traceback" in (path / "logs" / "driver.log").read_text()


def test_the_same_line_again_and_again_ends_with_one_finished_run(outputs: Path) -> None:
    line = ("resume=auto", "algo.steps=3", "seed=5")
    assert [launch(outputs, *line) for _ in range(3)] == [4, 4, 0]
    (path,) = directories(outputs)
    record = json.loads((path / "run.json").read_text())
    assert len(record["launches"]) == 3
    assert launch(outputs, *line) == 4  # finished: the next one is a fresh run
    assert len(directories(outputs)) == 2


def test_a_path_alone_continues_with_the_overrides_of_then(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert launch(outputs, "algo.steps=2", "seed=5", "algo.optim.lr=0.125") == 4
    (path,) = directories(outputs)
    assert main([f"resume={path}"]) == 0
    assert directories(outputs) == [path]
    capsys.readouterr()
    assert main([f"resume={path}"]) == 2
    assert "is finished with 2 of 2 steps" in capsys.readouterr().err
    assert main([f"resume={path}", "algo.steps=3", "algo.optim.lr=0.25"]) == 2
    assert "it was started with algo.optim.lr=0.125, not 0.25" in capsys.readouterr().err
    assert main([f"resume={path}", "algo.steps=3"]) == 0


def test_an_output_folder_that_cannot_be_made_is_a_bad_setting(
    outputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs.write_text("a file")
    assert launch(outputs) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: output_dir: '{outputs}' is not allowed; Not a directory")
    assert err.count("\n") == 1


def test_a_sweep_with_a_failed_job_says_so(outputs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert launch(outputs, "algo.steps=1") == 0
    (path,) = directories(outputs)
    assert launch(outputs, "--multirun", f"resume={path}") == 1  # nothing is left to do: the job ends with 2
    out, err = capfd.readouterr()
    assert "is finished with 1 of 1 steps" in err
    assert out.splitlines()[1].split()[:3] == ["0", "bad_config", "2"]
