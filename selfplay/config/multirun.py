"""`--multirun`: Hydra's sweepers and launchers, with each job a process of its own.

A job is `python -m selfplay.train <its overrides>`, so that no job meets another's Ray, and one that dies takes none
with it. All jobs are checked before the first one starts; a table at the end says how each of them ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

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
from selfplay.runs.summary import ExitCode, Status

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
    command = [sys.executable, "-m", "selfplay.train", *job.overrides.task]
    code = _call(command)
    if code == ExitCode.INTERRUPTED:
        (folder.parent / STOP).touch()
    overrides = list(job.overrides.task)
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


def _run_dirs(record: Path) -> list[Path]:
    """Where a job's run was written: the newest directory that was started with its overrides."""
    job = json.loads(record.read_text(encoding="utf-8"))
    base = Path(job["output_dir"])
    found = []
    for path in base.glob("*/*/run.json"):
        run = json.loads(path.read_text(encoding="utf-8"))
        if run.get("overrides") == job["overrides"] and (path.parent / "summary.json").is_file():
            found.append(path.parent)
    return sorted(found, key=lambda one: (one / "summary.json").stat().st_mtime)[-1:]


def _call(command: Sequence[str]) -> int:
    """Run a child to its end. Ctrl-C reaches it from the terminal and SIGTERM from here; this process only waits."""
    child = subprocess.Popen(command)
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    relay = signal.signal(signal.SIGTERM, lambda number, frame: child.send_signal(number))
    try:
        code = child.wait()
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, relay)
    return code if code >= 0 else 128 - code


def _make_sweep_dir(parsed: Sequence[Override]) -> Path:
    """`<output_dir>/multirun/<timestamp>`; the process id keeps two sweeps of one second apart."""
    given = [override.value() for override in parsed if override.key_or_group == "output_dir"]
    base = Path(given[-1] if given and isinstance(given[-1], str) else "outputs")
    folder = base / "multirun" / f"{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ConfigError(f"output_dir: {str(base)!r} is not allowed; {error.strerror}: {error.filename}") from error
    return folder
