"""Fresh, continued and refused run directories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from selfplay.runs.files import RunDirError
from selfplay.runs.resume import NothingLeft, combine, differences, prepare_run_dir, saved_overrides
from selfplay.runs.rundir import RunDir, create_run_dir, open_run_dir, unfinished_runs
from selfplay.runs.summary import Status, Summary, read_summary, write_summary

SETTINGS = "algo:\n  steps: {steps}\n  lr: {lr}\nseed: {seed}\nlogging:\n  console: {console}\n"


def settings(steps: int = 10, lr: float = 0.1, seed: int = 0, console: str = "auto") -> str:
    return SETTINGS.format(steps=steps, lr=lr, seed=seed, console=console)


def prepare(outputs: Path, resume: str, name: str = "run", **values: float | str) -> RunDir:
    return prepare_run_dir(
        resume=resume,
        output_dir=outputs,
        algo="toy",
        name=name,
        seed=int(values.get("seed", 0)),
        steps=int(values.get("steps", 10)),
        config_yaml=settings(**values),  # type: ignore[arg-type]  # as given by the tests below
        overrides=[f"{key}={value}" for key, value in values.items()],
    )


def end(path: Path, status: Status, steps: int = 10, seed: int = 0) -> None:
    write_summary(path / "summary.json", Summary(seed=seed, status=status, steps=steps))


def test_a_fresh_directory_has_everything(tmp_path: Path) -> None:
    with create_run_dir(tmp_path, "toy", "first", 7, settings(), ["seed=7"]) as run:
        assert run.path.parent == tmp_path / "toy"
        assert run.path.name.endswith("-first")
        assert {entry.name for entry in run.path.iterdir()} == {
            *("config.yaml", "run.json", "summary.json", ".lock", "pool", "rollouts", "checkpoints", "logs")
        }
        record = json.loads(run.run_json.read_text())
        assert (record["algo"], record["name"], record["seed"], record["overrides"]) == ("toy", "first", 7, ["seed=7"])
        assert {"version", "commit", "python", "packages", "created"} <= record.keys()
        assert len(record["launches"]) == 1
        assert run.config_yaml.read_text() == settings()


def test_runs_of_the_same_second_get_different_names(tmp_path: Path) -> None:
    runs = [create_run_dir(tmp_path, "toy", "run", seed, settings(), []) for seed in range(4)]
    assert len({run.path for run in runs}) == 4
    assert all(len(unfinished_runs(tmp_path, "toy", "run", seed)) == 1 for seed in range(4))


def test_auto_continues_the_newest_unfinished_run_of_this_name_and_seed(tmp_path: Path) -> None:
    paths = {}
    for name, seed in (("run", 0), ("run", 1), ("run-2", 0), ("run", 0)):
        with prepare(tmp_path, "never", name=name, seed=seed) as run:
            paths[name, seed] = run.path  # the second ("run", 0) is newer and replaces the first
    with prepare(tmp_path, "auto") as run:
        assert run.resumed
        assert run.path == paths["run", 0]
        assert len(json.loads(run.run_json.read_text())["launches"]) == 2


@pytest.mark.parametrize("status", [Status.RUNNING, Status.FAILED, Status.STALLED, Status.INTERRUPTED])
def test_every_unfinished_status_is_continued_and_runs_again(tmp_path: Path, status: Status) -> None:
    with prepare(tmp_path, "never") as first:
        end(first.path, status, steps=4)
    with prepare(tmp_path, "auto") as run:
        assert run.path == first.path
        summary = read_summary(run.summary)
        assert summary is not None
        assert (summary.status, summary.steps) == (Status.RUNNING, 4)


@pytest.mark.parametrize("status", [Status.FINISHED, Status.BAD_CONFIG])
def test_auto_starts_afresh_when_there_is_nothing_to_continue(tmp_path: Path, status: Status) -> None:
    with prepare(tmp_path, "never") as first:
        end(first.path, status)
    with prepare(tmp_path, "auto") as run:
        assert not run.resumed
        assert run.path != first.path


def test_once_continues_a_run_until_it_has_finished(tmp_path: Path) -> None:
    with prepare(tmp_path, "once") as first:
        assert not first.resumed
    with prepare(tmp_path, "once") as run:
        assert run.path == first.path
        end(run.path, Status.FINISHED)
    with pytest.raises(NothingLeft, match=r"finished with 10 of 10 steps"):
        prepare(tmp_path, "once")
    with prepare(tmp_path, "once", steps=12) as run:
        assert run.path == first.path
    with prepare(tmp_path, "once", name="other") as run:
        assert not run.resumed


def test_another_setting_is_another_run(tmp_path: Path) -> None:
    with prepare(tmp_path, "never") as first:
        pass
    with pytest.raises(RunDirError, match=r"started with algo\.lr=0\.1, not 0\.2 \(resume=never starts afresh\)"):
        prepare(tmp_path, "auto", lr=0.2)
    open_run_dir(first.path).close()  # the refusal let go of the lock


def test_steps_and_logging_may_change(tmp_path: Path) -> None:
    with prepare(tmp_path, "never") as first:
        end(first.path, Status.FINISHED)
    with pytest.raises(RunDirError, match=r"finished with 10 of 10 steps"):
        prepare(tmp_path, str(first.path), console="plain")
    with prepare(tmp_path, str(first.path), steps=12, console="plain") as run:
        assert run.resumed
        assert run.config_yaml.read_text() == settings(steps=12, console="plain")
    assert saved_overrides(run.path) == ["steps=12", "console=plain"]


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    for refused in (open_run_dir, saved_overrides):
        with pytest.raises(RunDirError, match="is not allowed; it is"):
            refused(tmp_path)


def test_an_output_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirError, match=r"output_dir: '.*file' is not allowed; Not a directory"):
        create_run_dir(tmp_path / "file", "toy", "run", 0, settings(), [])


def test_given_overrides_come_on_top_of_saved_ones() -> None:
    saved = ["algo=ancora", "seed=1", "algo.steps=5", "resume=auto"]
    assert combine(saved, ["algo.steps=9", "resume=x"]) == ["algo=ancora", "seed=1", "algo.steps=9", "resume=x"]


def test_differences_name_what_is_new_gone_or_changed() -> None:
    saved = {"a": {"b": 1, "gone": 2}, "resume": "never", "logging": {"level": "info"}}
    new = {"a": {"b": 3, "new": 4}, "resume": "auto", "logging": {"level": "debug"}}
    assert differences(saved, new) == ["a.b=1, not 3", "a.gone=2, not absent", "a.new=absent, not 4"]
