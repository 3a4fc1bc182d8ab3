"""GPUs by `nvidia-smi`, and whether there are as many as the cluster's settings take."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from selfplay.algos.anchorloop.config import AnchorLoopConfig
from selfplay.config.schema import Config
from selfplay.diagnosis.findings import Finding, needs_engine, ok, problem
from selfplay.diagnosis.packages import Project, installed

GPUS = "GPUs"
SMI_S = 10.0  # it loads the driver first where nothing else keeps it loaded
QUERY = ["nvidia-smi", "--query-gpu=index,uuid,name,memory.total,driver_version", "--format=csv,noheader,nounits"]
VISIBLE = "CUDA_VISIBLE_DEVICES"


class NoDriver(RuntimeError):
    """`nvidia-smi` is not installed, or does not answer; the message is one line."""


@dataclass(frozen=True)
class Gpu:
    """One GPU; memory in MiB."""

    index: str
    uuid: str
    name: str
    memory_mib: int
    driver: str


def gpus(config: Config) -> list[Finding]:
    """The GPUs that are here, against those that the run takes here."""
    needed = gpus_needed(config)
    try:
        here = visible(list_gpus(), os.environ)
    except NoDriver as error:
        if needed == 0:
            return [ok(GPUS, f"none ({error}); not needed by this config")]
        return [_too_few(config, needed, 0, str(error))]
    what = described(here)
    if needed > len(here):
        return [_too_few(config, needed, len(here), what)]
    return [ok(GPUS, what + ("; not needed by this config" if needed == 0 else f"; this config takes {needed}"))]


def gpus_needed(config: Config) -> int:
    """GPUs that the run takes on this machine; those of a Ray cluster that it joins are looked for elsewhere."""
    cluster = config.cluster
    if cluster.device != "cuda" or cluster.ray_address or not needs_engine(config):
        return 0
    alone = isinstance(config.algo, AnchorLoopConfig) and cluster.anchor.placement == "dedicated"
    return cluster.ranks_per_node + (cluster.rollout.tensor_parallel if alone else 0)


def cluster(config: Config) -> list[Finding]:
    """What this machine cannot tell: the machines of a Ray cluster."""
    address = config.cluster.ray_address
    return [ok(GPUS, f"the machines of the Ray cluster at {address} are not looked at")] if address else []


def flash_attention(config: Config, project: Project) -> list[Finding]:
    """flash-attn, with which every model runs on GPUs and none on a CPU."""
    version = installed("flash-attn")
    if config.cluster.device != "cuda" or not needs_engine(config):
        return [ok(GPUS, f"flash-attn {version or 'not installed'}; not needed by this config")]
    if version:
        return [ok(GPUS, f"flash-attn {version}")]
    pin = next(str(line) for line in project.requirements("gpu") if line.name == "flash-attn")
    fix = f"pip install --no-build-isolation {pin}"
    return [problem(GPUS, "flash-attn is not installed, and cluster.device=cuda needs it", fix)]


def list_gpus() -> list[Gpu]:
    """All GPUs of the machine.

    Raises:
        NoDriver: there is no `nvidia-smi`, or it failed.
    """
    if shutil.which(QUERY[0]) is None:
        raise NoDriver("no nvidia-smi")
    try:
        ran = subprocess.run(QUERY, capture_output=True, text=True, check=False, timeout=SMI_S)
    except subprocess.TimeoutExpired as error:
        raise NoDriver(f"nvidia-smi did not answer within {SMI_S:g} s") from error
    if ran.returncode != 0:
        said = (ran.stdout + ran.stderr).strip().splitlines() or [f"exit code {ran.returncode}"]
        raise NoDriver(f"nvidia-smi failed: {said[0]}")
    rows = [[word.strip() for word in line.split(",")] for line in ran.stdout.splitlines() if line.strip()]
    return [Gpu(row[0], row[1], row[2], int(row[3]) if row[3].isdigit() else 0, row[4]) for row in rows]


def visible(gpus: Sequence[Gpu], environ: Mapping[str, str]) -> list[Gpu]:
    """Those that CUDA shows to a process: as CUDA_VISIBLE_DEVICES lists them, up to the first that is none."""
    listed = environ.get(VISIBLE)
    if listed is None:
        return list(gpus)
    found = []
    for word in (word.strip() for word in listed.split(",")):
        match = next((gpu for gpu in gpus if word == gpu.index or (word and gpu.uuid.startswith(word))), None)
        if match is None:
            break
        found.append(match)
    return found


def described(gpus: Sequence[Gpu]) -> str:
    """`2 x NVIDIA A100-SXM4-80GB (80 GiB), driver 550.54`."""
    if not gpus:
        return f"none that {VISIBLE}={os.environ[VISIBLE]} shows" if VISIBLE in os.environ else "none"
    kinds = [f"{gpu.name} ({gpu.memory_mib / 1024:.0f} GiB)" for gpu in gpus]
    counted = ", ".join(f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds))
    return f"{counted}, driver {gpus[0].driver}"


def _too_few(config: Config, needed: int, count: int, here: str) -> Finding:
    """The problem with its ways out: fewer ranks where there are some GPUs, or none at all."""
    settings = config.cluster
    frozen = needed - settings.ranks_per_node
    shard = settings.rollout.tensor_parallel
    ranks = (count - frozen) // shard * shard
    why = f"{settings.ranks_per_node} ranks" + (f" and {frozen} for the frozen server" if frozen else "")
    ways = [f"cluster=gpu cluster.ranks_per_node={ranks}"] if ranks > 0 else []
    ways += ["cluster=cpu", f"a machine with {needed} GPUs"]
    if count == 0:
        ways.append("in a container: docker run --gpus all")
    return problem(GPUS, f"cluster={settings.name} takes {needed} GPUs ({why}); here: {here}", "; or ".join(ways))
