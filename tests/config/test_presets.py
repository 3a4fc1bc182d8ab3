"""Every preset composes and is checked, row by row; tables are expanded, and mistakes with them are one line."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from selfplay.config.errors import ConfigError
from selfplay.config.load import conf_dir, load_config, parse
from selfplay.config.multirun import expand
from selfplay.config.schema import Config
from selfplay.config.tables import rows_of

FOLDER = conf_dir() / "experiment"
PRESETS = sorted(path.stem for path in FOLDER.glob("*.yaml"))
GRID = 10  # a preset with more rows is a grid: its first and last row stand for all


def some_rows(name: str) -> list[int]:
    rows = list(range(max(1, len(rows_of(FOLDER, name)))))
    return rows if len(rows) <= GRID else [rows[0], rows[-1]]


RUNS = [(name, row) for name in PRESETS for row in some_rows(name)]
FILES = ["algo.roots=roots.jsonl", "algo.eval.heldout=heldout.jsonl", "algo.warmup.demos=demonstrations.jsonl"]


def overrides(name: str, row: int) -> list[str]:
    """What starts a row of a preset; those with Verus take the user's own files."""
    chosen = [f"experiment={name}", *([f"row={row}"] if rows_of(FOLDER, name) else [])]
    large = name.startswith("ancora_") and not name.endswith("_tiny")
    text = " ".join([name, *(rows_of(FOLDER, name)[row] if rows_of(FOLDER, name) else [])])
    needs_files = large and any(word in text for word in ("ttt", "transfer", "table1", "figure5"))
    return [*chosen, *(FILES if needs_files else [])]


@cache
def loaded(name: str, row: int) -> Config:
    return load_config(overrides(name, row))


@pytest.mark.parametrize(("name", "row"), RUNS)
def test_every_run_of_every_preset_can_start(name: str, row: int) -> None:
    config = loaded(name, row)
    tiny = config.backbone.kind == "tiny"
    if name.endswith("_tiny"):
        assert tiny
        assert config.cluster.device == "cpu"
    if any(part in name for part in ("_table", "_figure", "_section")) and not name.endswith("_tiny"):
        assert not tiny
        assert config.cluster.device == "cuda"


@pytest.mark.parametrize("name", [name for name in PRESETS if rows_of(FOLDER, name)])
def test_the_rows_of_a_table_are_different_runs(name: str) -> None:
    configs = [loaded(name, row) for row in some_rows(name)]
    found = {(config.algo.name, config.name, config.backbone.name) for config in configs}
    assert len(found) == len(configs)
    assert all(config.rows == [] and config.row == -1 for config in configs)


def test_what_is_given_beside_a_table_comes_on_top() -> None:
    config = load_config(["experiment=ancora_figure4_tiny", "row=1", "algo.steps=3", "seed=5"])
    assert (config.algo.freeze, config.algo.steps, config.seed) == ("proposer", 3, 5)


def test_a_multirun_of_a_table_is_its_rows_and_the_seeds() -> None:
    jobs = expand(parse(["experiment=ancora_figure4_tiny", "seed=0,1", "row=0,1,2,3"]))
    assert len(jobs) == 8
    assert {load_config(job).seed for job in jobs} == {0, 1}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["experiment=ancora_figure4_tiny"], "is a table of 4 runs; add --multirun for all, or row=0 ... 3"),
        (["experiment=ancora_figure4_tiny", "row=4"], "row: 4 is not allowed; ancora_figure4_tiny has the rows 0 to 3"),
        (["experiment=ancora_figure4_tiny", "row=x"], "row: 'x' is not allowed"),
        (["row=0"], "row: 0 is not allowed; experiment=None is no table of several runs"),
        (["experiment=ancora_figure44_tiny"], "did you mean ancora_figure4_tiny?"),
    ],
)
def test_mistakes_with_tables_are_one_line(given: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(given)
    assert said in str(caught.value)


def test_the_command_plans_every_row(tmp_path: Path) -> None:
    words = ["experiment=ancora_figure4_tiny", "--multirun", "dry_run=true", f"output_dir={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-m", "selfplay.train", *words], capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("row=") == 4
