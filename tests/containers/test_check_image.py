"""`docker/check_image.py`, with which a build ends: what is a failure of the image and what is not."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from steps_script import ROOT

from selfplay.diagnosis.packages import installed


def checked(*settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "docker" / "check_image.py"), *settings]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)


def test_says_the_layers_of_both_backends_and_what_the_image_has() -> None:
    done = checked("cluster=cpu")
    heads = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert heads == ["sandbox.backend=zygote: layers here", "sandbox.backend=bubblewrap: layers here", "image:"]
    image = done.stdout.partition("image:\n")[2]
    assert "packages: " in image
    assert "dafny_lite 1 with z3" in image
    assert done.returncode == (0 if shutil.which("dafny") else 1), done.stdout


@pytest.mark.skipif(installed("flash-attn") is not None, reason="this environment is the GPU image's")
def test_packages_that_are_missing_are_the_image_s_fault() -> None:
    done = checked("cluster=gpu")
    assert done.returncode == 1
    assert "problem GPUs: flash-attn is not installed" in " ".join(done.stdout.split())


def test_bad_settings_are_one_line() -> None:
    done = checked("cluster=gpus")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
