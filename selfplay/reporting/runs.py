"""A run directory, read for a report: settings, summary, metrics, and whatever else the system left."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from selfplay.runs.files import read_jsonl


class NoRun(ValueError):
    """A folder that is no run directory, or one that cannot be read; the message says which and why."""


@dataclass(frozen=True)
class Run:
    """`metrics` has a row a step, in order. `label` tells the run from others of a comparison."""

    path: Path
    config: Mapping[str, Any]
    summary: Mapping[str, Any]
    metrics: pd.DataFrame

    @property
    def algo(self) -> str:
        return str(self.config["algo"]["name"])

    @property
    def system(self) -> str:
        """Which package wrote it: the baselines are their systems'."""
        return {"rft": "ancora", "psv": "ancora", "agent0": "anchorloop"}.get(self.algo, self.algo)

    @property
    def seed(self) -> int:
        return int(self.config["seed"])

    @property
    def arm(self) -> str:
        """What runs that differ in their seed alone have in common."""
        name = re.sub(r"[-_ ]*seed[-_ ]?\d+$", "", str(self.config["name"]))
        return self.algo if name in ("", "run", self.algo) else f"{self.algo} {name}"

    @property
    def label(self) -> str:
        return f"{self.arm}, seed {self.seed}"

    @property
    def iterations(self) -> list[dict[str, Any]]:
        return list(self.summary.get("iterations") or [])

    def steps(self, phase: str) -> pd.DataFrame:
        """The metrics of one phase's steps; all of them where there are no phases."""
        if "phase" not in self.metrics:
            return self.metrics
        return self.metrics[self.metrics["phase"] == phase]

    def jsonl(self, name: str) -> list[dict[str, Any]]:
        """A file of the run's, [] if it is not there."""
        path = self.path / name
        return read_jsonl(path) if path.is_file() else []

    def json(self, name: str) -> Any:
        """A file of the run's, None if it is not there."""
        path = self.path / name
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def load(path: Path) -> Run:
    """Read a run directory. Raises NoRun."""
    try:
        config = yaml.safe_load((path / "config.yaml").read_text(encoding="utf-8"))
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
        lines = read_jsonl(path / "metrics.jsonl") if (path / "metrics.jsonl").is_file() else []
    except OSError as error:
        raise NoRun(f"{path}: no run directory: {error.strerror}: {Path(str(error.filename)).name}") from error
    except (ValueError, yaml.YAMLError) as error:
        raise NoRun(f"{path}: cannot be read: {str(error).splitlines()[0]}") from error
    return Run(path, config, summary, pd.DataFrame(lines))


def arms(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs by arm, in the order of their first ones; the seeds of an arm in theirs."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.arm, []).append(run)
    return {arm: sorted(mine, key=lambda run: run.seed) for arm, mine in found.items()}


def differences(runs: Sequence[Run]) -> pd.DataFrame:
    """The settings in which runs differ: a row a setting, a column a run."""
    flat = [dict(_flatten(run.config)) for run in runs]
    keys = sorted({key for one in flat for key in one})
    rows = {key: [one.get(key) for one in flat] for key in keys}
    shown = {key: values for key, values in rows.items() if any(value != values[0] for value in values)}
    return pd.DataFrame.from_dict(shown, orient="index", columns=[run.path.name for run in runs])


def _flatten(node: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict) and node:
        for key, value in node.items():
            yield from _flatten(value, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, node if not isinstance(node, list | dict) else json.dumps(node)
