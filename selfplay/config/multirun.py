"""`--multirun`: Hydra's sweepers and launchers, with each job a process of its own.

A job is `python -m selfplay.train <its overrides>`, so that no job meets another's Ray, and one that dies takes none
with it. All jobs are checked before the first one starts; a table at the end says how each of them ended. A job that a
launcher starts again (SLURM after a preemption or at the time limit) continues its own run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from types import FrameType

import hydra
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from selfplay.config.errors import ConfigError
from selfplay.config.load import conf_dir, load_config, parse, with_saved_overrides
from selfplay.config.schema import register
from selfplay.config.tables import experiment_of, rows_of
from selfplay.runs.files import to_json, write_atomic
from selfplay.runs.rundir import read_run_json
from selfplay.runs.summary import ExitCode, Status, read_summary

BEGUN = "begun"  # made in a job's folder when it is first started
RESULT = "job.json"
STOP = "STOP"  # made in the sweep's directory by an interrupted job: jobs after it do not start


def sweep(overrides: Sequence[str]) -> int:
    """Run every job of the sweep; 0 if all finished, 130 if interrupted, 1 otherwise.

    Raises:
        ConfigError: a job's settings are bad (checked where Hydra's own sweeper makes the jobs). Nothing was started.
    """
    parsed = parse(overrides)
    rows = rows_of(conf_dir() / "experiment", experiment_of(parsed))
    if rows and not any(one.key_or_group == "row" for one in parsed):
        overrides = [*overrides, f"row={','.join(map(str, range(len(rows))))}"]
        parsed = parse(overrides)
    jobs = expand(parsed)
    for number, job in enumerate(jobs):
        try:
            load_config(with_saved_overrides(job))
        except ConfigError as error:
            raise ConfigError(f"job {number} ({' '.join(job) or 'defaults'}): {error}") from error
    folder = _make_sweep_dir(parsed)
    register()
    arguments = [sys.argv[0], "--multirun", *overrides, f"hydra.sweep.dir={folder}"]
    saved, sys.argv = sys.argv, arguments
    try:
        hydra.main(config_path=str(conf_dir()), config_name="config", version_base="1.3")(run_job)()
    finally:
        sys.argv = saved
    code = report(folder)
    compare(folder)
    return code


def expand(parsed: Sequence[Override]) -> list[list[str]]:
    """The overrides of each job, as Hydra's basic sweeper will make them; empty if another sweeper was chosen."""
    if any(override.key_or_group == "hydra/sweeper" for override in parsed):
        return []
    mine = [override for override in parsed if not override.key_or_group.startswith("hydra")]
    return [job for batch in BasicSweeper.split_arguments(mine, None) for job in batch]


def run_job(config: DictConfig) -> int:
    """One job, in the process (or on the machine) that the launcher chose for it; its exit code."""
    job = HydraConfig.get()
    folder = Path(job.runtime.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    if (folder.parent / STOP).exists():
        return int(ExitCode.INTERRUPTED)
    overrides = [str(override) for override in job.overrides.task]
    earlier = _begun_run(folder, overrides, Path(config.output_dir))
    summary = read_summary(earlier / "summary.json") if earlier else None
    if summary is not None and summary.status is Status.FINISHED:
        code = int(ExitCode.FINISHED)
    else:
        again = [*_without_resume(overrides), f"resume='{earlier}'"] if earlier else overrides
        code = _call([sys.executable, "-m", "selfplay.train", *again])
    if code == ExitCode.INTERRUPTED and not _in_slurm():  # SLURM stops each of its jobs for itself
        (folder.parent / STOP).touch()
    record = {"number": job.job.num, "overrides": overrides, "exit_code": code, "output_dir": config.output_dir}
    write_atomic(folder / RESULT, to_json(record) + "\n")
    return code


def report(folder: Path) -> int:
    """Print how each job ended, from the files that the jobs left; returns the sweep's exit code."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob(f"*/{RESULT}")]
    table = Table(box=None, pad_edge=False)
    for title in ("job", "status", "exit code", "overrides"):
        table.add_column(title, overflow="fold")
    for record in sorted(records, key=lambda record: int(record["number"])):
        code = int(record["exit_code"])
        row = (str(record["number"]), str(Status.of(code)), str(code), escape(" ".join(record["overrides"])))
        table.add_row(*row)
    Console(soft_wrap=True).print(table)
    codes = {int(record["exit_code"]) for record in records}
    if (folder / STOP).exists():
        print("interrupted: the jobs after it were not started", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    return int(ExitCode.FINISHED if codes == {0} else ExitCode.FAILED)


def compare(folder: Path) -> None:
    """One page over the runs of a sweep, beside the jobs' records; a line where there can be none."""
    runs = sorted({path for record in folder.glob(f"*/{RESULT}") for path in _run_dirs(record)})
    if len(runs) < 2:
        return
    try:
        from selfplay.report import write
        from selfplay.reporting.runs import load

        figures = write([load(path) for path in runs], folder / "report")
    except Exception as error:  # a page that fails must not fail a sweep of days
        print(f"no comparison: {type(error).__name__}: {error}", file=sys.stderr)
        return
    print(f"comparison of {len(runs)} runs, {figures} figures: {folder / 'report' / 'index.html'}")


def _in_slurm() -> bool:
    return "SLURM_JOB_ID" in os.environ


def _begun_run(folder: Path, overrides: Sequence[str], output_dir: Path) -> Path | None:
    """The run that this job began when it was started before; None at its first start."""
    mark = folder / BEGUN
    if not mark.exists():
        mark.touch()
        return None
    began = int(mark.stat().st_mtime)  # run.json has whole seconds
    for path in reversed(_runs_with(overrides, output_dir)):
        if datetime.fromisoformat(read_run_json(path)["created"]).timestamp() >= began:
            return path
    return None


def _run_dirs(record: Path) -> list[Path]:
    """Where a job's run was written: the newest directory that was started with its overrides."""
    job = json.loads(record.read_text(encoding="utf-8"))
    return _runs_with(job["overrides"], Path(job["output_dir"]))[-1:]


def _runs_with(overrides: Sequence[str], base: Path) -> list[Path]:
    """The runs below `base` that were started with these overrides, whether continued since or not; newest last."""
    found, mine = [], _without_resume(overrides)
    for path in base.glob("*/*/run.json"):
        run = json.loads(path.read_text(encoding="utf-8"))
        if _without_resume(run.get("overrides", [])) == mine and (path.parent / "summary.json").is_file():
            found.append(path.parent)
    return sorted(found, key=lambda one: (one / "summary.json").stat().st_mtime)


def _without_resume(overrides: Sequence[str]) -> list[str]:
    return [one for one in overrides if not one.startswith("resume=")]


def _call(command: Sequence[str]) -> int:
    """Run a child to its end and give its exit code; this process only waits.

    Ctrl-C reaches the child from the terminal, and SIGTERM from here. submitit asks a job to make way with SIGUSR2, at
    which its own handler puts the job back into the queue: before that, the child saves and ends. SLURM signals all of
    a task's process group, so there the child has a group of its own.
    """
    child = subprocess.Popen(command, start_new_session=_in_slurm())
    requeue = signal.getsignal(signal.SIGUSR2)

    def make_way(number: int, frame: FrameType | None) -> None:
        child.send_signal(signal.SIGTERM)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # wait() is under way below and holds a lock
        if callable(requeue):
            requeue(number, frame)  # does not return

    handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]] = {
        signal.SIGINT: lambda number, frame: None,
        signal.SIGTERM: lambda number, frame: child.send_signal(number),
    }
    if callable(requeue):
        handlers[signal.SIGUSR2] = make_way
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        code = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def _make_sweep_dir(parsed: Sequence[Override]) -> Path:
    """`<output_dir>/multirun/<timestamp>`; the process id keeps two sweeps of one second apart."""
    given = [override.value() for override in parsed if override.key_or_group == "output_dir"]
    base = Path(given[-1] if given and isinstance(given[-1], str) else "outputs").absolute()
    folder = base / "multirun" / f"{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ConfigError(f"output_dir: {str(base)!r} is not allowed; {error.strerror}: {error.filename}") from error
    return folder
