"""TensorBoard, W&B and the driver's log: used when asked for, imported only then."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from selfplay.runs.config import LoggingConfig
from selfplay.runs.loggers import close_driver_log, open_driver_log, scalars


def test_only_numbers_are_passed_on() -> None:
    values = {"a": 1, "b": np.float32(0.5), "c": True, "d": "text", "e": {"f": 1}, "g": None}
    assert scalars(values) == {"a": 1.0, "b": 0.5, "c": 1.0}


def test_nothing_is_imported_unless_asked_for(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from selfplay.runs.config import LoggingConfig\n"
        "from selfplay.runs.loggers import MetricLoggers\n"
        "with MetricLoggers(LoggingConfig(), Path(sys.argv[1]), {}) as loggers: loggers.log(1, {'a': 1})\n"
        "print(sorted({'torch', 'wandb', 'tensorboard'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
    assert not list(tmp_path.iterdir())


def test_the_driver_log_takes_the_projects_records_and_closes(tmp_path: Path) -> None:
    handler = open_driver_log(tmp_path / "logs", "info")
    logging.getLogger("selfplay.algos").info("step %d done", 3)
    logging.getLogger("selfplay.algos").debug("not shown")
    close_driver_log(handler)
    logging.getLogger("selfplay.algos").info("after closing")
    lines = (tmp_path / "logs" / "driver.log").read_text().splitlines()
    assert len(lines) == 1
    assert lines[0].endswith("INFO selfplay.algos: step 3 done")


@pytest.mark.slow
def test_tensorboard_files_hold_the_values_and_a_resumed_run_hides_later_points(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from selfplay.runs.loggers import MetricLoggers

    for first, values in ((1, {1: 0.1, 2: 0.2, 3: 0.9}), (3, {3: 0.3})):
        with MetricLoggers(LoggingConfig(tensorboard=True), tmp_path, {}, first_step=first) as loggers:
            for step, value in values.items():
                loggers.log(step, {"reward/solver": value})
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    found = {event.step: event.value for event in events.Scalars("reward/solver")}
    assert found == pytest.approx({1: 0.1, 2: 0.2, 3: 0.3})


@pytest.mark.slow
def test_wandb_offline_stays_in_the_run_directory(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from selfplay.runs.config import LoggingConfig, WandbConfig\n"
        "from selfplay.runs.loggers import MetricLoggers\n"
        "settings = LoggingConfig(wandb=WandbConfig(mode='offline'))\n"
        "with MetricLoggers(settings, Path(sys.argv[1]), {'seed': 1}) as loggers: loggers.log(1, {'a': 1})\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, check=True, timeout=300)
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))
