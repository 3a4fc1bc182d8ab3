"""Every file that is read back, poisoned: nothing in it is run, and the refusal names it.

The ranks' files of a checkpoint, which are torch's, are poisoned in tests/engine/test_session.py, and LiveCodeBench's
packed tests in tests/benchmarks/test_formats.py.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from selfplay.algos.anchorloop.anchor_cache import AnchorCache
from selfplay.algos.anchorloop.data import read_heldout
from selfplay.algos.ancora.data import read_demos
from selfplay.algos.ancora.distill import HarvestFile
from selfplay.algos.ancora.position import Position
from selfplay.algos.benchevolver.data import read_tasks
from selfplay.algos.benchevolver.models import CallLog
from selfplay.algos.runtime import Runtime
from selfplay.algos.supervised import NOTE, read_note
from selfplay.algos.training_run import TrainingRun
from selfplay.backbones.tiny import load_corpus
from selfplay.config.load import load_config, to_yaml
from selfplay.curriculum.persistence import PoolError, Snapshot, load_snapshot, save_snapshot
from selfplay.curriculum.roots import load_roots
from selfplay.evaluation.config import EvaluateConfig
from selfplay.evaluation.subject import subject_of, tokenizer_of
from selfplay.reporting.runs import NoRun, load
from selfplay.runs.checkpoints import Checkpoint
from selfplay.runs.files import read_jsonl
from selfplay.runs.metrics import read_metrics
from selfplay.runs.resume import prepare_run_dir
from selfplay.runs.rollouts import read_rollouts
from selfplay.runs.rundir import create_run_dir, read_run_json
from selfplay.runs.summary import read_summary
from selfplay.sandbox.base import Judgement
from selfplay.sandbox.cache import CachedProver

MARK = "ran"  # the file that a bomb makes


class Bomb:
    """Unpickled carelessly, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.path), "w")


def contents(folder: Path) -> dict[str, bytes]:
    """What somebody who hopes for a careless reader would write."""
    mark = folder / MARK
    return {
        "pickle": pickle.dumps(Bomb(mark)) + b"\n",
        "yaml": f"!!python/object/apply:os.system ['touch {mark}']\n".encode(),
        "python": f"__import__('pathlib').Path({str(mark)!r}).touch()\n".encode(),
        "object": b'{"__reduce__": ["os.system", "touch ' + str(mark).encode() + b'"]}\n',
    }


READERS: dict[str, Callable[[Path], Any]] = {
    "pool.json": lambda path: load_snapshot(path.parent),
    "calls.jsonl": CallLog,
    "anchor_cache.jsonl": AnchorCache,
    "demonstrations.jsonl": read_demos,
    "heldout.jsonl": read_heldout,
    "roots.jsonl": load_roots,
    "tasks.jsonl": lambda path: read_tasks(str(path)),
    "corpus.json": lambda path: load_corpus(str(path)),
    "step_000001.jsonl": lambda path: list(read_rollouts(path)),
    "metrics.jsonl": lambda path: list(read_metrics(path)),
    "summary.json": read_summary,
    "run.json": lambda path: read_run_json(path.parent),
    NOTE: lambda path: read_note(path.parent),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", ["pickle", "yaml", "python", "object"])
def test_what_is_no_record_is_refused_by_name(name: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(contents(tmp_path)[kind])
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        READERS[name](path)
    assert not (tmp_path / MARK).exists()


@pytest.mark.parametrize("kind", ["pickle", "yaml", "python"])
def test_rows_that_are_no_json_are_refused_by_name(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "round_1.jsonl"
    path.write_bytes(contents(tmp_path)[kind])
    for reader in (HarvestFile(path).read, lambda: read_jsonl(path)):
        with pytest.raises(ValueError, match=r"round_1\.jsonl"):
            reader()
    assert not (tmp_path / MARK).exists()


@pytest.mark.parametrize("kind", ["pickle", "yaml", "python", "object"])
def test_a_verdict_that_is_none_is_asked_again(kind: str, tmp_path: Path) -> None:
    """The verdict cache skips what is no record: a killed writer leaves such lines too."""

    class Strict:
        name = "strict"

        def verify(self, spec: str, answer: str) -> Judgement:
            raise LookupError("asked")

    path = tmp_path / "verdicts.jsonl"
    path.write_bytes(contents(tmp_path)[kind])
    with pytest.raises(LookupError, match="asked"):
        CachedProver(Strict(), "settings", path).verify("spec", "answer")  # type: ignore[arg-type]
    assert not (tmp_path / MARK).exists()


def test_objects_among_a_pool_s_arrays_are_refused(tmp_path: Path) -> None:
    """The sums in pool.json agree with the file: whoever can write one can write both."""
    folder = tmp_path / "pool"
    save_snapshot(folder, Snapshot([None], {"visits": np.array([Bomb(tmp_path / MARK)], dtype=object)}, {}))
    with pytest.raises(PoolError, match=r"arrays\.1\.npz: cannot be read"):
        load_snapshot(folder)
    assert not (tmp_path / MARK).exists()
    with np.load(folder / "arrays.1.npz", allow_pickle=True) as careless:
        careless["visits"]
    assert (tmp_path / MARK).exists()  # it would have


@pytest.mark.parametrize("kind", ["pickle", "yaml", "python", "object"])
def test_settings_of_a_run_are_refused_by_name(kind: str, tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    run = create_run_dir(tmp_path / "outputs", "ancora", "run", 0, "seed: 0\n", ["seed=0"])
    run.close()
    run.config_yaml.write_bytes(contents(tmp_path)[kind])
    with pytest.raises(ValueError, match=r"config\.yaml|was started with"):
        prepare_run_dir(
            resume=str(run.path),
            output_dir=tmp_path / "outputs",
            algo="ancora",
            name="run",
            seed=0,
            steps=1,
            config_yaml="seed: 0\n",
            overrides=["seed=0"],
        )
    if kind in ("pickle", "yaml"):  # the others are YAML, though no settings
        with pytest.raises(NoRun, match=str(run.path)):
            load(run.path)
        with pytest.raises(ValueError, match=r"config\.yaml: cannot be read"):
            subject_of(EvaluateConfig(model=str(run.path)))
    assert not (tmp_path / MARK).exists()


@pytest.mark.parametrize("kind", ["pickle", "yaml", "python", "object"])
def test_a_checkpoint_s_position_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    config = load_config([])
    with create_run_dir(tmp_path / "outputs", "ancora", "run", 0, to_yaml(config), []) as run_dir:
        run = TrainingRun(config, run_dir, Runtime(config, run_dir))
        run.position = Position()
        folder = run_dir.checkpoints / "step_000002"
        folder.mkdir()
        (folder / "state.json").write_bytes(contents(tmp_path)[kind])
        with pytest.raises(ValueError, match=r"step_000002/state\.json: not the state of a run"):
            run.rewind(Checkpoint(2, folder))
    assert not (tmp_path / MARK).exists()


@pytest.mark.slow  # the import of transformers
def test_code_beside_a_model_is_not_imported(tmp_path: Path) -> None:
    """`auto_map` is how a model's folder asks for code of its own to be run."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "evil.py").write_text(f"open({str(tmp_path / MARK)!r}, 'w')\nclass Evil: ...\n")
    (folder / "config.json").write_text('{"auto_map": {"AutoConfig": "evil.Evil"}, "model_type": "evil"}')
    (folder / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": ["evil.Evil", null]}}')
    subject = subject_of(EvaluateConfig(model=str(folder)))
    with pytest.raises(ValueError, match=f"{folder}: no tokenizer: .*"):
        tokenizer_of(subject, trust_remote_code=False)
    assert not (tmp_path / MARK).exists()


def test_the_bombs_go_off_where_a_reader_is_careless(tmp_path: Path) -> None:
    made = contents(tmp_path)
    for act in (
        lambda: pickle.loads(made["pickle"]),
        lambda: yaml.load(made["yaml"], Loader=yaml.UnsafeLoader),
        lambda: eval(made["python"]),
    ):
        act()
        (tmp_path / MARK).unlink()  # it is there
