"""Presets that stand for a table or a figure of a paper: several runs, each a row with overrides of its own.

    experiment=ancora_figure4 --multirun        all rows
    experiment=ancora_figure4 row=2             one of them

A row's overrides take the place of `experiment=`; whatever else stands on the command line comes on top.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from hydra.core.override_parser.types import Override
from omegaconf import OmegaConf

from selfplay.config.errors import ConfigError


def rows_of(folder: Path, experiment: object) -> list[list[str]]:
    """The rows of an experiment of `folder`; none if it is a single run, or no file of the folder."""
    path = folder / f"{experiment}.yaml"
    if not isinstance(experiment, str) or not path.is_file():
        return []
    content = OmegaConf.to_container(OmegaConf.load(path))
    rows = content.get("rows", []) if isinstance(content, dict) else []
    return [shlex.split(str(row)) for row in rows]


def experiment_of(parsed: Sequence[Override]) -> object:
    """The last `experiment=` of the overrides, or None."""
    return next((one.value() for one in reversed(parsed) if one.key_or_group == "experiment"), None)


def resolved(parsed: Sequence[Override], overrides: Sequence[str], folder: Path) -> list[str]:
    """The overrides with a table's row in its place; without a table as they are.

    Raises:
        ConfigError: a table without `row`, a row that it does not have, or `row` without a table.
    """
    experiment = experiment_of(parsed)
    rows = rows_of(folder, experiment)
    given = [one.value() for one in parsed if one.key_or_group == "row"]
    if not rows:
        if given and given[-1] != -1:
            raise ConfigError(f"row: {given[-1]} is not allowed; experiment={experiment} is no table of several runs")
        return list(overrides)
    last = len(rows) - 1
    if not given or given[-1] == -1:
        raise ConfigError(
            f"experiment: {experiment!r} is a table of {len(rows)} runs; add --multirun for all, or row=0 ... {last}"
        )
    row = given[-1]
    if not isinstance(row, int) or not 0 <= row <= last:
        raise ConfigError(f"row: {row!r} is not allowed; {experiment} has the rows 0 to {last}")
    rest = [text for one, text in zip(parsed, overrides, strict=True) if one.key_or_group not in ("experiment", "row")]
    return [*rows[row], *rest]
