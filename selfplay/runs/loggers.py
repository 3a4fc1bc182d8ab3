"""Where metrics go beside `metrics.jsonl`: TensorBoard and Weights & Biases, each imported only when it is used."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from selfplay.runs.config import LoggingConfig


class MetricLogger(Protocol):
    """Takes the metrics of a step."""

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Pass on the numbers among `values`."""
        ...

    def close(self) -> None:
        """Write out what is held back."""
        ...


def scalars(values: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among `values`; text, lists and nested objects are for metrics.jsonl alone."""
    found = {}
    for name, value in values.items():
        if hasattr(value, "item"):
            value = value.item()
        if isinstance(value, (bool, int, float)):
            found[name] = float(value)
    return found


class TensorBoardLogger:
    """Event files in `<run>/tensorboard`. `first_step` hides points of a killed launch beyond its checkpoint."""

    def __init__(self, folder: Path, first_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(log_dir=str(folder), purge_step=first_step)

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        for name, value in scalars(values).items():
            self._writer.add_scalar(name, value, global_step=step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class WandbLogger:
    """One W&B run per run directory, continued when the run is resumed; files stay in the run directory."""

    def __init__(self, run_path: Path, settings: LoggingConfig, config: Mapping[str, Any]) -> None:
        os.environ["WANDB_MODE"] = settings.wandb.mode  # before the import: nothing is contacted unless asked for
        os.environ.setdefault("WANDB_SILENT", "true")
        import wandb

        self._run = wandb.init(
            project=settings.wandb.project,
            entity=settings.wandb.entity or None,
            name=run_path.name,
            id=run_path.name.replace("+", "-"),
            resume="allow" if settings.wandb.mode == "online" else None,
            dir=str(run_path),
            config=dict(config),
        )

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        self._run.log(scalars(values), step=step)

    def close(self) -> None:
        self._run.finish()


class MetricLoggers:
    """The loggers that the settings ask for; none of them by default. Use as a context manager."""

    def __init__(self, settings: LoggingConfig, run_path: Path, config: Mapping[str, Any], first_step: int = 0) -> None:
        self._loggers: list[MetricLogger] = []
        if settings.tensorboard:
            self._loggers.append(TensorBoardLogger(run_path / "tensorboard", first_step))
        if settings.wandb.mode != "disabled":
            self._loggers.append(WandbLogger(run_path, settings, config))

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        for logger in self._loggers:
            logger.log(step, values)

    def __enter__(self) -> MetricLoggers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for logger in self._loggers:
            logger.close()


def open_driver_log(folder: Path, level: str) -> logging.Handler:
    """Send this process's `logging` records of `selfplay` to `<folder>/driver.log`.

    Returns the file's handler; `close_driver_log` undoes it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(folder / "driver.log", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("selfplay")
    logger.setLevel(level.upper())
    logger.addHandler(handler)
    return handler


def close_driver_log(handler: logging.Handler) -> None:
    """Undo `open_driver_log`."""
    logging.getLogger("selfplay").removeHandler(handler)
    handler.close()
