"""Settings of the verifiers. One dataclass for each; `registry.build_prover` turns one into a prover."""

from __future__ import annotations

from dataclasses import dataclass, field


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


PYTHON_BACKENDS = ("zygote", "bubblewrap")
_PRELOAD = ("math", "fractions", "decimal", "itertools", "collections", "re")
_MINIMUM = ("files", "writes", "sockets", "programs", "forks", "memory", "environment")  # what a probe could not do


@dataclass(frozen=True)
class PythonConfig:
    """The sandbox for model-written Python.

    `backend` is zygote (forked interpreters behind all layers) or bubblewrap (the `bwrap` command: slower, and not our
    code). `minimum` are the layers without which it refuses to start; `python -m selfplay.sandbox.python` lists them.
    `packages` are installed packages that programs may import besides the standard library; `preload` are imported
    before they run, which makes their import free.
    """

    name: str = "python"
    backend: str = "zygote"
    slots: int = 2
    wall_s: float = 30.0
    memory_mib: int = 1024
    tmp_mib: int = 16
    processes: int = 32  # threads: a run has no other processes
    output_kib: int = 64
    packages: list[str] = field(default_factory=list)
    preload: list[str] = field(default_factory=lambda: list(_PRELOAD))
    minimum: list[str] = field(default_factory=lambda: list(_MINIMUM))

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value that cannot work."""
        if self.backend not in PYTHON_BACKENDS:
            raise ValueError(f"backend: {self.backend!r} is not allowed; it is {' or '.join(PYTHON_BACKENDS)}")
        for key in ("slots", "wall_s", "memory_mib", "tmp_mib", "processes", "output_kib"):
            if getattr(self, key) <= 0:
                raise ValueError(f"{key}: {getattr(self, key)} is not allowed; it must be above 0")
        if self.memory_mib < 128:
            raise ValueError(f"memory_mib: {self.memory_mib} is not allowed; an interpreter needs 128")


JUDGE_COMPARISONS = ("strict", "paper")


@dataclass(frozen=True)
class JudgeConfig(PythonConfig):
    """The judge of programs by their tests: the Python sandbox, with the limits of a programming contest.

    `wall_s` bounds a program's own seconds on one test. `compare` is strict, or paper (BenchEvolver's rule, which
    accepts some wrong answers; see `sandbox.judge.compare`).
    """

    name: str = "judge"
    wall_s: float = 6.0
    output_kib: int = 8192
    compare: str = "strict"

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value that cannot work."""
        super().check()
        if self.compare not in JUDGE_COMPARISONS:
            raise ValueError(f"compare: {self.compare!r} is not allowed; it is {' or '.join(JUDGE_COMPARISONS)}")


ProverConfig = DafnyLiteConfig | DafnyConfig | VerusConfig

PROVER_CONFIGS: dict[str, type[ProverConfig]] = {
    "dafny_lite": DafnyLiteConfig,
    "dafny": DafnyConfig,
    "verus": VerusConfig,
}
