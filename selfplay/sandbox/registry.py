"""Names to provers. To add one: a config dataclass in `config`, a builder here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from selfplay.sandbox.base import Prover
from selfplay.sandbox.cache import CachedProver
from selfplay.sandbox.config import DafnyConfig, DafnyLiteConfig, ProverConfig, VerusConfig


def _build_dafny_lite(config: DafnyLiteConfig) -> Prover:
    import z3

    from selfplay.sandbox.dafny_lite import VERSION, DafnyLite

    settings = f"dafny_lite {VERSION}, z3 {z3.get_version_string()}, rlimit {config.rlimit}"
    return _cached(DafnyLite(rlimit=config.rlimit), config, settings)


def _build_dafny(config: DafnyConfig) -> Prover:
    from selfplay.sandbox.dafny import Dafny

    prover = Dafny(config.path, config.z3_path, config.prover_time_limit_s, config.time_limit_s, config.servers)
    return _cached(prover, config, f"dafny {prover.version}, {config.prover_time_limit_s} s, {config.z3_path}")


def _build_verus(config: VerusConfig) -> Prover:
    from selfplay.sandbox.verus import Verus

    prover = Verus(config.path, config.rlimit, config.time_limit_s)
    return _cached(prover, config, f"verus {prover.version}, rlimit {config.rlimit:g}")


def _cached(prover: Prover, config: ProverConfig, settings: str) -> Prover:
    return CachedProver(prover, settings, config.cache_path or None) if config.cache else prover


PROVERS: dict[str, Callable[[Any], Prover]] = {
    "dafny_lite": _build_dafny_lite,
    "dafny": _build_dafny,
    "verus": _build_verus,
}


def build_prover(config: ProverConfig) -> Prover:
    """The prover that `config` describes, with a verdict cache around it unless `config.cache` is off.

    Raises:
        ValueError: `config.name` names no prover, or a setting is out of range.
        FileNotFoundError: the prover's executable is not installed.
    """
    if config.name not in PROVERS:
        raise ValueError(f"sandbox.name={config.name}: no such prover; one of {', '.join(sorted(PROVERS))}")
    return PROVERS[config.name](config)
