"""`python -m selfplay.doctor [key=value ...] [--json]`: whether this machine can run what the settings describe.

Takes the settings of `python -m selfplay.train`, starts nothing of a run, asks nothing of the network, and leaves
nothing behind. Exit codes: 0 it can run here, 1 it cannot, 2 bad settings, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from selfplay.config.errors import ConfigError

if TYPE_CHECKING:
    from selfplay.config.schema import Config
    from selfplay.diagnosis.findings import Finding

CAN, CANNOT, BAD, INTERRUPTED = 0, 1, 2, 130
FLAGS = ("--json", "--help", "-h")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return examine(words)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD
    except ImportError as error:  # this Python is not the project's: then there is nothing else to say about it
        print(f"problem: {sys.executable} lacks what selfplay needs: {error}", file=sys.stderr)
        print("fix: make setup, then .venv/bin/python -m selfplay.doctor", file=sys.stderr)
        return CANNOT
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def examine(words: Sequence[str]) -> int:
    """Take the flags out, load the settings, run the checks, print what they found; the exit code.

    Raises:
        ConfigError: a flag is unknown, or the settings cannot be used.
    """
    flags = [word for word in words if word.startswith("-")]
    for flag in flags:
        if flag not in FLAGS:
            raise ConfigError(f"{flag}: there is no such flag; there are --help and --json")
    if "--help" in flags or "-h" in flags:
        print(__doc__)
        return CAN
    from selfplay.config.load import load_config, with_saved_overrides

    config = load_config(with_saved_overrides([word for word in words if word not in flags]))
    from selfplay.diagnosis.checks import diagnose
    from selfplay.diagnosis.findings import State
    from selfplay.diagnosis.show import as_json, print_table

    found = diagnose(config)
    if "--json" in flags:
        print(as_json(found))
    else:
        print_table(found, verdict(config, found))
    return CANNOT if any(one.state is State.PROBLEM for one in found) else CAN


def verdict(config: Config, found: Sequence[Finding]) -> str:
    """The last line."""
    from selfplay.diagnosis.findings import State

    chosen = " ".join(f"{group}={getattr(config, group).name}" for group in ("algo", "backbone", "sandbox", "cluster"))
    problems, warnings = (sum(one.state is state for one in found) for state in (State.PROBLEM, State.WARNING))
    if problems:
        return f"{chosen} cannot run here: {problems} problem{'s' if problems > 1 else ''}"
    return f"{chosen} can run here" + (f"; {warnings} warning{'s' if warnings > 1 else ''}" if warnings else "")


if __name__ == "__main__":
    sys.exit(main())
