"""Secrets that are planted, and a search for them in whatever a command wrote or printed."""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

NAMES = (
    *("WANDB_API_KEY", "HF_TOKEN", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "VLLM_API_KEY", "GITHUB_TOKEN"),
    "LAB_DATABASE_PASSWORD",  # a made-up one
)


def plant() -> dict[str, str]:
    """Environment variables with values that occur nowhere else: of 40 characters, as W&B wants its keys."""
    return {name: secrets.token_hex(20) for name in NAMES}


def environment(planted: Mapping[str, str], **more: str) -> dict[str, str]:
    """This process's environment with `planted` and `more`; without PYTHONPATH, as for a stranger's command."""
    environ = {**os.environ, **planted, **more}
    environ.pop("PYTHONPATH", None)
    return environ


def forms(value: str) -> Iterator[bytes]:
    """A secret as it may stand in a file: plain, in a URL, and in base64 at each of the three offsets."""
    yield value.encode()
    yield quote(value, safe="").encode()
    for shift in range(3):
        whole = base64.b64encode(b"\0" * shift + value.encode())
        yield whole[4 if shift else 0 : -4]  # without the ends, which depend on what stands beside it


def in_bytes(content: bytes, planted: Mapping[str, str]) -> set[str]:
    """Names of the secrets that occur in `content`."""
    return {name for name, value in planted.items() if any(form in content for form in forms(value))}


def in_folder(folder: Path, planted: Mapping[str, str]) -> set[str]:
    """`<name> in <file>` for every file below `folder` that holds a secret, and every one that has it in its name."""
    found = set()
    for path in sorted(folder.rglob("*")):
        found |= {f"{name} in the name {path}" for name in in_bytes(os.fsencode(path.name), planted)}
        if path.is_file() and not path.is_symlink():
            found |= {f"{name} in {path}" for name in in_bytes(path.read_bytes(), planted)}
    return found
