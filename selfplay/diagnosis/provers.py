"""The provers of ANCORA: the chosen one proves a trivial method, the others are only looked for."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from selfplay.config.schema import Config
from selfplay.diagnosis.findings import Finding, ok, problem, warning
from selfplay.sandbox.base import Judgement
from selfplay.sandbox.config import DafnyConfig, DafnyLiteConfig, PythonConfig, VerusConfig

if TYPE_CHECKING:
    from selfplay.sandbox.dafny import Dafny
    from selfplay.sandbox.verus import Verus

PROVERS = "provers"
PROBE_S = 30.0  # of a try, of which there are two; one second where nothing else runs
DAFNY_SPEC, DAFNY_BODY = "method Probe(x: int) returns (r: int)\n  ensures r == x", "{ r := x; }"
VERUS_PROBE = "fn probe(x: u8) -> (r: u8)\n    ensures\n        r == x,\n{ x }"
VERUS_VARIABLE = "VERUS_PATH"
LIMITS_FIX = "sandbox.time_limit_s, sandbox.prover_time_limit_s and sandbox.rlimit above 0"


def proves(config: Config) -> bool:
    """Whether the config has a prover at all; other systems run Python."""
    return not isinstance(config.sandbox, PythonConfig)


def dafny_lite(config: Config) -> list[Finding]:
    """The embedded one: always there, so always tried."""
    if not proves(config):
        return []
    import z3

    from selfplay.sandbox.dafny_lite import VERSION, DafnyLite

    settings = config.sandbox if isinstance(config.sandbox, DafnyLiteConfig) else DafnyLiteConfig()
    judgement = DafnyLite(rlimit=settings.rlimit).verify(DAFNY_SPEC, DAFNY_BODY)
    fix = "sandbox.rlimit=100000, and the packages lark and z3-solver in the locked versions"
    return [_probed(f"dafny_lite {VERSION} with z3 {z3.get_version_string()}", judgement, fix)]


def dafny(config: Config) -> list[Finding]:
    """The `dafny` command."""
    settings = config.sandbox
    if not isinstance(settings, DafnyConfig):
        return [_idle("dafny", shutil.which(DafnyConfig().path))] if proves(config) else []
    from selfplay.sandbox.dafny import Dafny, judge

    fix = "apt-get install dafny; or sandbox.path=<file>; or sandbox=dafny_lite, which needs nothing"
    limits = settings.prover_time_limit_s, min(PROBE_S, settings.time_limit_s)
    try:
        prover = Dafny(settings.path, settings.z3_path, *limits, servers=0)
    except FileNotFoundError as error:
        return [problem(PROVERS, str(error), fix)]
    except ValueError as error:
        return [problem(PROVERS, str(error), LIMITS_FIX)]
    run = prover.run(f"{DAFNY_SPEC}\n{DAFNY_BODY}")
    return [_versioned(prover, _probed(f"dafny {prover.path}", judge(run, 1) if run else None, fix), fix)]


def verus(config: Config) -> list[Finding]:
    """The `verus` binary."""
    settings = config.sandbox
    if not isinstance(settings, VerusConfig):
        return [_idle("verus", shutil.which(os.environ.get(VERUS_VARIABLE) or "verus"))] if proves(config) else []
    from selfplay.sandbox.verus import HOW_TO_GET_IT, Verus, judge

    fix = f"{HOW_TO_GET_IT}; or sandbox=dafny_lite, which needs nothing"
    try:
        prover = Verus(settings.path, settings.rlimit, min(PROBE_S, settings.time_limit_s))
    except FileNotFoundError as error:
        return [problem(PROVERS, str(error).partition(";")[0], fix)]  # how to get one follows
    except ValueError as error:
        return [problem(PROVERS, str(error), LIMITS_FIX)]
    run = prover.run(VERUS_PROBE)
    return [_versioned(prover, _probed(f"verus {prover.path}", judge(run, 1) if run else None, fix), fix)]


def _idle(name: str, path: str | None) -> Finding:
    return ok(PROVERS, f"{name}: {path or 'not installed'}; not needed by this config")


def _probed(what: str, judgement: Judgement | None, fix: str) -> Finding:
    """What came of the trivial method; None for a prover that did not finish."""
    if judgement is None:
        return problem(PROVERS, f"{what} did not finish with a trivial method, twice ({PROBE_S:g} s at most)", fix)
    if not judgement.verified:
        said = f"{judgement.verdict}: {judgement.detail}"
        return problem(PROVERS, f"{what} does not prove a trivial method: {said}", fix)
    return ok(PROVERS, f"{what} proves a trivial method")


def _versioned(prover: Dafny | Verus, found: Finding, fix: str) -> Finding:
    """With the version; one that proves nothing is not asked, which may take as long again."""
    if found.fix:
        return found
    if prover.version == "unknown":
        return warning(PROVERS, f"{found.what}; it does not say its version", fix)
    return ok(PROVERS, f"{found.what}, version {prover.version}")
