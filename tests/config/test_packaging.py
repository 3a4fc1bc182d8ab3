"""An installed wheel runs from any folder, with its settings and data."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from selfplay.config.load import conf_dir

ROOT = Path(__file__).resolve().parents[2]


def test_the_lock_pins_every_line_and_torch_to_the_cpu_build() -> None:
    lines = (ROOT / "requirements" / "cpu.lock.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(line.count("==") == 1 for line in pins)
    torch = [line for line in pins if line.startswith("torch==")]
    assert torch == ["torch==2.13.0+cpu"]


def test_the_lock_has_what_the_extras_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "requirements" / "cpu.lock.txt").read_text().splitlines()
    pinned = {line.partition("==")[0].lower().replace("_", "-"): line.partition("==")[2] for line in lines}
    wanted = project["optional-dependencies"]["cpu"] + project["optional-dependencies"]["dev"]
    for requirement in wanted:
        name, _, version = requirement.partition("==")
        assert pinned[name].removesuffix("+cpu") == version, requirement


@pytest.mark.slow
def test_the_wheel_carries_settings_and_data_and_runs_from_any_folder(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    clone.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "conf", "selfplay"):
        subprocess.run(["cp", "-r", str(ROOT / name), str(clone)], check=True)
    pip = [sys.executable, "-m", "pip", "--quiet"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(clone)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    (wheel,) = tmp_path.glob("selfplay-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    conf = conf_dir()
    for path in conf.rglob("*.yaml"):
        assert f"selfplay/conf/{path.relative_to(conf)}" in names
    package = ROOT / "selfplay"
    for pattern in ("*.json", "*.jsonl", "*.lark", "py.typed", "*.py"):
        for path in package.rglob(pattern):
            assert f"selfplay/{path.relative_to(package)}" in names

    site = tmp_path / "site"
    install = [*pip, "install", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=300)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); sys.meta_path[:] = [f for f in sys.meta_path if"
        " 'Editable' not in str(f)]; import selfplay; from selfplay.train import main;"
        " print(selfplay.__file__); sys.exit(main(['dry_run=true']))"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(site)], capture_output=True, text=True, cwd=elsewhere)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(str(site))
    assert "# placement" in ran.stdout
