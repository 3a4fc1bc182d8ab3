"""Python and the installed packages, against the lock file of a clone or the project's own requirements."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import selfplay
from selfplay.config.schema import Config
from selfplay.diagnosis.findings import Finding, needs_engine, ok, problem, warning

PYTHON, PACKAGES = "Python", "packages"
LOCK = Path("requirements", "cpu.lock.txt")
LISTED = 6  # packages that a line names; the others are counted


@dataclass(frozen=True)
class Project:
    """What the project asks for: from a clone's files, else from the metadata of the installed package."""

    root: Path  # the folder that the package `selfplay` lies in

    @cached_property
    def table(self) -> dict[str, object]:
        """`[project]` of pyproject.toml; empty outside a clone."""
        file = self.root / "pyproject.toml"
        return dict(tomllib.loads(file.read_text(encoding="utf-8"))["project"]) if file.is_file() else {}

    @property
    def python(self) -> str:
        """The versions of Python it runs on, as `>=3.11,<3.12`."""
        return str(self.table.get("requires-python") or importlib.metadata.metadata("selfplay")["Requires-Python"])

    def requirements(self, extra: str = "") -> list[Requirement]:
        """What is needed with `extra` ("" for none)."""
        if self.table:
            extras = self.table["optional-dependencies"]
            assert isinstance(extras, dict)
            base = self.table["dependencies"]
            assert isinstance(base, list)
            return [Requirement(line) for line in (*base, *extras.get(extra, ()))]
        lines = [Requirement(line) for line in importlib.metadata.requires("selfplay") or ()]
        return [line for line in lines if line.marker is None or line.marker.evaluate({"extra": extra})]

    def locked(self) -> list[Requirement]:
        """Every package of the lock file for CPUs; none outside a clone."""
        file = self.root / LOCK
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        return [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]


def project() -> Project:
    return Project(Path(selfplay.__file__).resolve().parent.parent)


def python_version(wanted: str) -> list[Finding]:
    """This interpreter against the versions that `wanted` allows."""
    here = platform.python_version()
    if SpecifierSet(wanted).contains(here, prereleases=True):
        return [ok(PYTHON, f"{here} ({sys.executable})")]
    fix = "make clean; make setup PYTHON=/path/to/python3.11"
    return [problem(PYTHON, f"{here} ({sys.executable}); {wanted} is needed", fix)]


def package_versions(config: Config, wanted: Project) -> list[Finding]:
    """What is missing, and what is there in another version than was tested."""
    on_cpu = config.cluster.device == "cpu"
    extra = "" if not needs_engine(config) else "cpu" if on_cpu else "gpu"
    lock = wanted.locked() if extra == "cpu" else []
    pins, source = lock or wanted.requirements(extra), str(LOCK) if lock else "the project's requirements"
    tools = {_plain(line) for line in wanted.requirements("dev")} - {_plain(line) for line in wanted.requirements()}
    missing = [str(pin) for pin in pins if installed(pin.name) is None and _plain(pin) not in tools]
    idle = [str(pin) for pin in pins if installed(pin.name) is None and _plain(pin) in tools]
    other = [f"{pin.name} {installed(pin.name)} (wanted {pin.specifier})" for pin in pins if not _fits(pin)]
    fix = way_to_install(wanted.root, extra, bool(lock))
    found = []
    if missing:
        found.append(problem(PACKAGES, f"{len(missing)} missing: {shortened(missing)}", fix))
    if idle:
        found.append(warning(PACKAGES, f"missing, for tests only: {shortened(idle)}", fix))
    if other:
        found.append(warning(PACKAGES, f"{len(other)} in other versions than tested: {shortened(other)}", fix))
    return found or [ok(PACKAGES, f"{len(pins)} packages, all as {source} has them")]


def installed(name: str) -> str | None:
    """The installed version; None if there is none."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def way_to_install(root: Path, extra: str, locked: bool) -> str:
    """The command that puts right what is missing or different."""
    clone = (root / "pyproject.toml").is_file()
    if locked or (clone and not extra):
        here = Path(sys.prefix).resolve() == (root / ".venv").resolve()
        if here and any((root / ".venv").glob(".ready-*")):  # make takes a complete environment's mark at its word
            return "rm .venv/.ready-*; make setup"
        return "make setup" if here else "make setup, then .venv/bin/python -m selfplay.doctor"
    if extra == "gpu":
        return "pip install -e '.[gpu]'" if clone else "pip install 'selfplay[gpu]'"
    return f"pip install --no-deps -r {LOCK} (of the project's source)" if extra else "pip install selfplay"


def shortened(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    rest = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {rest} more" if rest > 0 else "")


def _plain(requirement: Requirement) -> str:
    return requirement.name.lower().replace("_", "-")


def _fits(pin: Requirement) -> bool:
    """Whether the installed version is an allowed one; one that is missing is counted elsewhere."""
    here = installed(pin.name)
    return here is None or pin.specifier.contains(here, prereleases=True)
