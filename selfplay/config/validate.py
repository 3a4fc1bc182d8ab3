"""Ranges and combinations that types cannot say. Each component checks itself; what spans two of them is here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from selfplay.config.schema import Config


def problems(config: Config) -> list[str]:
    """Everything wrong with `config`, as `full.key: reason`; empty if it can run."""
    return [*_own_checks(config, ""), *_across(config)]


def _own_checks(node: Any, prefix: str) -> Iterator[str]:
    """What the `check()` of each dataclass raises, outermost first, with the key made full."""
    if hasattr(node, "check"):
        try:
            node.check()
        except ValueError as error:
            yield prefix + str(error)
    for item in fields(node):
        value = getattr(node, item.name)
        if is_dataclass(value):
            yield from _own_checks(value, f"{prefix}{item.name}.")


def _across(config: Config) -> Iterator[str]:
    """Combinations of components that cannot work."""
    algo, backbone = config.algo, config.backbone
    if backbone.kind == "tiny":
        for role in ("proposer", "solver"):
            section = getattr(algo, role, None)
            if section is not None and section.max_tokens >= backbone.max_positions:
                yield (
                    f"algo.{role}.max_tokens: {section.max_tokens} is not allowed; it must be below"
                    f" backbone.max_positions={backbone.max_positions}"
                )
    if config.cluster.device == "cpu" and config.cluster.rollout.max_num_batched_tokens < _longest(config):
        yield (
            f"cluster.rollout.max_num_batched_tokens: {config.cluster.rollout.max_num_batched_tokens} is not allowed;"
            f" it must be at least the {_longest(config)} tokens of one sequence"
        )


def _longest(config: Config) -> int:
    """Tokens of the longest sequence the backbone takes, where that is a setting; 0 otherwise."""
    return config.backbone.max_positions if config.backbone.kind == "tiny" else 0
