"""Ctrl-C: once saves and ends with 130, twice ends at once; shown on processes of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

DRIVER = """
import sys, time
from selfplay.runs.interrupt import Interrupted, StopRequest
with StopRequest(on_force=lambda: print("forced", flush=True)) as stop:
    print("up", flush=True)
    try:
        while True:
            time.sleep(0.01)
            if "patient" in sys.argv:
                stop.raise_if_requested()
    except Interrupted:
        print("saved", flush=True)
        sys.exit(130)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_the_driver_save(number: signal.Signals) -> None:
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, "patient"], stdout=-1, stderr=-1, text=True)
    assert driver.stdout is not None
    assert driver.stdout.readline() == "up\n"
    driver.send_signal(number)
    out, err = driver.communicate(timeout=30)
    assert (out, driver.returncode) == ("saved\n", 130)
    assert err.strip() == f"{number.name}: stopping after saving; once more to end at once"


def test_the_second_signal_ends_a_driver_that_does_not_listen() -> None:
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, "deaf"], stdout=-1, stderr=-1, text=True)
    assert driver.stdout is not None
    assert driver.stderr is not None
    assert driver.stdout.readline() == "up\n"
    driver.send_signal(signal.SIGINT)
    driver.stderr.readline()
    assert "stopping after saving" in driver.stderr.readline()  # the first was handled before the second is sent
    time.sleep(0.05)
    assert driver.poll() is None
    driver.send_signal(signal.SIGTERM)
    out, _ = driver.communicate(timeout=30)
    assert (out, driver.returncode) == ("forced\n", 130)
