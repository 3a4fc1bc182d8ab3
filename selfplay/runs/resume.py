"""`resume=never|auto|once|<path>`: which directory a run writes to, and whether it may continue the one it finds.

`auto` takes the newest run of the same algo, name and seed that has not finished, and makes a fresh directory if there
is none. `once` does the same, but has nothing to do where that run has finished: a batch job that is started again and
again with the same line ends with one finished run. A path continues that very run with the overrides it was started
with; ones given beside `resume=` come on top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from selfplay.runs.files import RunDirError
from selfplay.runs.rundir import RunDir, create_run_dir, open_run_dir, read_run_json, runs_of, unfinished_runs
from selfplay.runs.summary import Status, read_summary

# What may differ between the launches of one run without making it another run: how much is logged, how far it goes,
# and on how many machines (a run that lost one goes on with what is left).
FREE_KEYS = (
    *("resume", "stop_after", "dry_run", "output_dir", "logging", "algo.steps"),
    *("cluster.watchdog", "cluster.checkpoint"),
    *("cluster.name", "cluster.nodes", "cluster.ranks_per_node", "cluster.ray_address", "cluster.object_store_mib"),
)


class NothingLeft(RunDirError):
    """The run that was to be continued has finished."""


def saved_overrides(path: Path) -> list[str]:
    """The overrides with which the run at `path` was last started.

    Raises:
        RunDirError: there is no run at `path`.
    """
    if not (path / "run.json").is_file():
        raise RunDirError(
            f"resume: {str(path)!r} is not allowed; it is never, auto, once or the path of a run directory"
        )
    return [str(item) for item in read_run_json(path)["overrides"]]


def override_key(override: str) -> str:
    """`algo.steps` of `+algo.steps=5`."""
    return override.partition("=")[0].lstrip("+~")


def combine(saved: Sequence[str], given: Sequence[str]) -> list[str]:
    """`given` on top of `saved`: a saved override of the same key is dropped."""
    again = {override_key(item) for item in given}
    return [item for item in saved if override_key(item) not in again] + list(given)


def prepare_run_dir(
    *,
    resume: str,
    output_dir: Path,
    algo: str,
    name: str,
    seed: int,
    steps: int,
    config_yaml: str,
    overrides: Sequence[str],
) -> RunDir:
    """The directory that this launch writes to, held by this process.

    Raises:
        NothingLeft: it has finished.
        RunDirError: it is no run, is in use, or was started with other settings.
    """
    found: Path | None = None
    if resume == "auto":
        candidates = unfinished_runs(output_dir, algo, name, seed)
        found = candidates[0] if candidates else None
    elif resume == "once":
        found = next(
            (path for path, status in runs_of(output_dir, algo, name, seed) if status is not Status.BAD_CONFIG), None
        )
    elif resume != "never":
        found = Path(resume)
    if found is None:
        return create_run_dir(output_dir, algo, name, seed, config_yaml, overrides)
    run_dir = open_run_dir(found)
    try:
        _check_same_run(run_dir, config_yaml)
        _check_work_left(run_dir, steps)
        run_dir.record_launch(config_yaml, overrides)
    except BaseException:
        run_dir.close()
        raise
    return run_dir


def differences(saved: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """`key=old, not new` for every setting that differs and is not in FREE_KEYS."""
    old_flat, new_flat = flatten(saved), flatten(new)
    missing = object()
    found = []
    for key in sorted(old_flat.keys() | new_flat.keys()):
        old, now = old_flat.get(key, missing), new_flat.get(key, missing)
        if old != now and not any(key == free or key.startswith(free + ".") for free in FREE_KEYS):
            shown = ["absent" if value is missing else repr(value) for value in (old, now)]
            found.append(f"{key}={shown[0]}, not {shown[1]}")
    return found


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` as `{"a.b": 1}`; an empty mapping has no entries."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _check_same_run(run_dir: RunDir, config_yaml: str) -> None:
    try:
        saved = yaml.safe_load(run_dir.config_yaml.read_text(encoding="utf-8"))
        found = differences(saved, yaml.safe_load(config_yaml))
    except (yaml.YAMLError, ValueError, AttributeError) as error:
        raise RunDirError(f"{run_dir.config_yaml}: not a run's settings: {error}") from error
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise RunDirError(
            f"resume: {str(run_dir.path)!r} is not allowed; it was started with {'; '.join(found[:3])}{more}"
            " (resume=never starts afresh)"
        )


def _check_work_left(run_dir: RunDir, steps: int) -> None:
    summary = read_summary(run_dir.summary)
    if summary is not None and summary.status is Status.FINISHED and summary.steps >= steps:
        raise NothingLeft(
            f"resume: {str(run_dir.path)!r} is not allowed; it is finished with {summary.steps} of {steps} steps"
            " (algo.steps=<more> goes on)"
        )
