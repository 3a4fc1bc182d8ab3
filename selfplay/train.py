"""`python -m selfplay.train [key=value ...]`: the one command. `--help` has the groups, settings and exit codes.

arguments -> selfplay.config.load      checked settings, or one line and exit code 2
          -> selfplay.runs.resume      the run directory, fresh or continued, locked
          -> selfplay.algos            the system that `algo=` names: run(config, run_dir) -> exit code
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from selfplay.config.errors import ConfigError

if TYPE_CHECKING:
    from selfplay.config.schema import Config
    from selfplay.runs.rundir import RunDir

log = logging.getLogger("selfplay.train")  # started with -m, the module is called __main__


@dataclass(frozen=True)
class Arguments:
    """A command line taken apart: flags, and Hydra's overrides."""

    overrides: tuple[str, ...] = ()
    help: bool = False
    show_config: bool = False
    multirun: bool = False


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    try:
        arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
        if arguments.help:
            from selfplay.config.help import help_page

            print(help_page(), end="")
            return 0
        if arguments.multirun:
            from selfplay.config.multirun import sweep

            return sweep(arguments.overrides)
        return single_run(arguments)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted before the run began", file=sys.stderr)
        return 130


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Take the flags out of a command line.

    Raises:
        ConfigError: a flag is unknown or incomplete.
    """
    overrides: list[str] = []
    help_, show_config, multirun = False, False, False
    words = iter(argv)
    for word in words:
        if word in ("--help", "-h"):
            help_ = True
        elif word in ("--multirun", "-m"):
            multirun = True
        elif word in ("--cfg", "-c", "--cfg=job"):
            what = "job" if word == "--cfg=job" else next(words, "")
            if what != "job":
                raise ConfigError(f"{word}: {what!r} is not allowed; it is job")
            show_config = True
        elif word.startswith("-"):
            raise ConfigError(f"{word}: there is no such flag; there are --help, --cfg job and --multirun")
        else:
            overrides.append(word)
    return Arguments(tuple(overrides), help_, show_config, multirun)


def single_run(arguments: Arguments) -> int:
    """One run, or what `--cfg job` and `dry_run=true` print of it."""
    from selfplay.config.load import load_config, to_yaml, with_saved_overrides
    from selfplay.runs.resume import NothingLeft

    overrides = with_saved_overrides(arguments.overrides)
    config = load_config(overrides)
    if arguments.show_config:
        print(to_yaml(config), end="")
        return 0
    if config.dry_run:
        from selfplay.config.plan import describe

        print(describe(config))
        return 0
    check_gpus(config)
    try:
        run_dir = open_run(config, overrides)
    except NothingLeft as error:
        if config.resume != "once":
            raise ConfigError(str(error)) from error
        print("nothing to do: the run has finished")
        return 0
    with run_dir:
        return run_algorithm(config, run_dir)


def check_gpus(config: Config) -> None:
    """Raise ConfigError where this machine has too few GPUs: before anything is started or written."""
    if config.cluster.device != "cuda":
        return
    from selfplay.diagnosis.findings import State
    from selfplay.diagnosis.gpus import gpus

    for found in gpus(config):
        if found.state is State.PROBLEM:
            raise ConfigError(f"cluster: {config.cluster.name!r} is not allowed; {found.what}; {found.fix}")


def open_run(config: Config, overrides: Sequence[str]) -> RunDir:
    """The run's directory, fresh or continued, held until it is closed.

    Raises:
        ConfigError: it cannot be made, is no run, is in use, or belongs to another run.
        NothingLeft: it has finished.
    """
    from selfplay.config.load import to_yaml
    from selfplay.runs.files import RunDirError
    from selfplay.runs.resume import NothingLeft, prepare_run_dir

    try:
        return prepare_run_dir(
            resume=config.resume,
            output_dir=Path(config.output_dir).absolute(),
            algo=config.algo.name,
            name=config.name,
            seed=config.seed,
            steps=config.algo.steps,
            config_yaml=to_yaml(config),
            overrides=overrides,
        )
    except NothingLeft:
        raise
    except RunDirError as error:
        raise ConfigError(str(error)) from error


def run_algorithm(config: Config, run_dir: RunDir) -> int:
    """Hand over to the system, and turn what it raises into a message, a summary and an exit code."""
    from selfplay.algos import ALGORITHMS
    from selfplay.runs.ending import gist, record_ending
    from selfplay.runs.interrupt import Interrupted
    from selfplay.runs.loggers import close_driver_log, open_driver_log
    from selfplay.runs.summary import ExitCode

    handler = open_driver_log(run_dir.logs, config.logging.level)
    try:
        module, _, function = ALGORITHMS[config.algo.name].partition(":")
        code = int(getattr(importlib.import_module(module), function)(config, run_dir))
        message = ""
    except ConfigError as error:  # bad data, found by the system before it started anything
        code, message = int(ExitCode.BAD_CONFIG), str(error)
    except (Interrupted, KeyboardInterrupt):
        code, message = int(ExitCode.INTERRUPTED), "stopped on request"
    except Exception as error:
        log.exception("the run failed")
        code, message = int(ExitCode.FAILED), f"{type(error).__name__}: {gist(str(error))}"
    finally:
        close_driver_log(handler)
    record_ending(run_dir, config.seed, code, message)
    return code


if __name__ == "__main__":
    sys.exit(main())
