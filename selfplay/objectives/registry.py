"""Choosing a function by the name that a configuration gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def choose(kind: str, registry: Mapping[str, T], name: str) -> T:
    """The entry of `registry` called `name`.

    Raises:
        ValueError: no such entry; the message is one line and names what is allowed.
    """
    if name not in registry:
        raise ValueError(f"unknown {kind} {name!r}; allowed: {', '.join(sorted(registry))}")
    return registry[name]
