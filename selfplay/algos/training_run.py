"""What the run of every system is made of: its files, its backbone, and checkpoints that can be continued."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from selfplay.algos.runtime import Runtime
from selfplay.backbones.config import BackboneConfig
from selfplay.config.errors import ConfigError
from selfplay.config.schema import Config
from selfplay.engine.session import Session
from selfplay.objectives.intervals import bootstrap_difference
from selfplay.runs.checkpoints import Checkpoint, CheckpointStore
from selfplay.runs.files import RunDirError, read_jsonl, to_json, write_atomic
from selfplay.runs.metrics import MetricsLog
from selfplay.runs.rollouts import RolloutWriter
from selfplay.runs.rundir import RunDir
from selfplay.runs.summary import Summary

METRICS = "metrics.jsonl"  # the run's, as it was: what a checkpoint continues from must not be damaged alone


class Counters(Protocol):
    """How far a run has come."""

    step: int

    def to_dict(self) -> dict[str, Any]: ...

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Counters: ...


class TrainingRun:
    """The base of a system's outer loop. `position` is the system's own; checkpoints hold it beside the weights."""

    session: Session
    backbone: Path | str
    position: Counters

    def __init__(self, config: Config, run_dir: RunDir, runtime: Runtime, landmarks: int = 0) -> None:
        """`landmarks`: checkpoints at every so many steps are kept beside the newest ones."""
        self.config, self.run_dir, self.runtime = config, run_dir, runtime
        self.progress = runtime.progress
        self.store = CheckpointStore(run_dir.checkpoints, config.cluster.checkpoint.keep, landmarks)
        self.metrics = MetricsLog(run_dir.metrics)
        self.rollouts = RolloutWriter(run_dir.rollouts)
        self.saved_step = 0
        self._taken_up = False

    def prepare_backbone(self, backbone: BackboneConfig) -> Path | str:
        """Build or find the model that is trained. Raises ConfigError where it cannot be had."""
        from selfplay.backbones.prepare import prepare
        from selfplay.backbones.smollm2 import MissingPackageError

        self.progress.phase("starting the engine")
        with self.runtime.heartbeat.phase("backbone", stall_s=self.config.cluster.watchdog.startup_s):
            try:
                self.backbone = prepare(backbone)
            except (ValueError, MissingPackageError) as error:
                raise ConfigError(f"backbone.{error}") from error
        return self.backbone

    def rewind(self, checkpoint: Checkpoint | None) -> dict[str, Any] | None:
        """Drop what was written after a checkpoint (None: the very start), and take up its summary; its position.

        The seconds of earlier launches are added once: what a run that goes back has spent since, it has spent.

        Raises:
            RunDirError: the checkpoint's state.json is not what a run writes.
        """
        first, self._taken_up = not self._taken_up, True
        self._rewind_metrics(checkpoint)
        self.rollouts.truncate_after(checkpoint.step if checkpoint else 0)
        if checkpoint is None:
            return None
        path = checkpoint.path / "state.json"
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            position, saved = dict(state["position"]), Summary.from_dict(state["summary"])
            type(self.position).from_dict(position)  # raises here, where the file is known
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise RunDirError(f"{path}: not the state of a run: {type(error).__name__}: {error}") from error
        self.saved_step, summary = checkpoint.step, self.runtime.summary
        summary.before, summary.warmup, summary.iterations = saved.before, saved.warmup, saved.iterations
        for phase, seconds in saved.timing_s.items() if first else ():
            self.runtime.add_time(phase, seconds)
        return position

    def _rewind_metrics(self, checkpoint: Checkpoint | None) -> None:
        for damaged in self.store.set_aside:
            self.progress.note(f"damaged, set aside: {damaged}")
        copy = checkpoint.path / METRICS if checkpoint else None
        if copy is None:
            self.metrics.replace("")
        elif copy.is_file():
            self.metrics.replace(copy.read_text(encoding="utf-8"))
        else:  # of a version that kept none
            self.metrics.truncate_after(checkpoint.step if checkpoint else 0)

    def save(self) -> None:
        """Commit a checkpoint: the policy at work, and how far the run has come."""
        self.commit()

    def commit(self, *parts: Callable[[Path], None]) -> None:
        """One checkpoint: the policy, the position, the summary, and what each of `parts` writes into its folder."""
        with self.store.stage(self.position.step) as folder:
            self.session.save(folder / "actor")
            for write in parts:
                write(folder)
            state = {"position": self.position.to_dict(), "summary": self.runtime.summary.to_dict()}
            write_atomic(folder / "state.json", to_json(state, indent=2) + "\n")
            shutil.copyfile(self.run_dir.metrics, folder / METRICS)
        self.saved_step = self.position.step

    def export_model(self, folder: Path) -> None:
        """The policy as a model folder that any Hugging Face tool loads, `backbone=hf` too; a hub name's tokenizer and
        configuration are not copied."""
        self.session.export(folder)
        source = Path(self.backbone)
        for path in source.iterdir() if source.is_dir() else ():
            if path.is_file() and path.suffix not in (".safetensors", ".bin"):
                shutil.copyfile(path, folder / path.name)

    def count_gain(self, field: str) -> None:
        """What the run brought, from the `field` of every problem of the evaluations before and after."""
        after, before = (
            [record[field] for record in read_jsonl(self.run_dir.rollouts / f"evaluation_{when}.jsonl")]
            for when in ("after", "before")
        )
        gain = bootstrap_difference(after, before)
        self.runtime.summary.gain = {"mean": gain.mean, "low": gain.low, "high": gain.high}
