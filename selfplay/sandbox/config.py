"""Settings of the verifiers. One dataclass for each; `registry.build_prover` turns one into a prover."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DafnyLiteConfig:
    """The embedded verifier.

    `rlimit` bounds each z3 query, in z3's resource units. `cache` keeps verdicts in memory; `cache_path`, when it is
    not empty, also in a file that later runs and other processes share.
    """

    name: str = "dafny_lite"
    rlimit: int = 100_000
    cache: bool = True
    cache_path: str = ""


@dataclass(frozen=True)
class DafnyConfig:
    """The `dafny` command.

    `path` is the executable, `z3_path` the z3 it should use ("" for its own choice). `prover_time_limit_s` bounds each
    proof inside Dafny, `time_limit_s` a whole question, in seconds. `servers` processes stay warm where Dafny has a
    server (2.3 has); 0: a process for each question.
    """

    name: str = "dafny"
    path: str = "dafny"
    z3_path: str = ""
    prover_time_limit_s: int = 10
    time_limit_s: float = 120.0  # a specification is three proofs at least; a stuck process is ended much earlier
    servers: int = 2
    cache: bool = True
    cache_path: str = ""


@dataclass(frozen=True)
class VerusConfig:
    """The `verus` binary.

    `path` is the executable ("": the environment's VERUS_PATH, else `verus` on the PATH). `rlimit` is Verus's own
    limit, about seconds of proof for each function; `time_limit_s` bounds the whole process, in seconds.
    """

    name: str = "verus"
    path: str = ""
    rlimit: float = 10.0
    time_limit_s: float = 60.0
    cache: bool = True
    cache_path: str = ""


ProverConfig = DafnyLiteConfig | DafnyConfig | VerusConfig

PROVER_CONFIGS: dict[str, type[ProverConfig]] = {
    "dafny_lite": DafnyLiteConfig,
    "dafny": DafnyConfig,
    "verus": VerusConfig,
}
