"""Folders that a run writes to, and shared memory: whether they can be written, and the space that is left."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from selfplay.backbones.cache import CACHE_VARIABLE, cache_root
from selfplay.backbones.folders import model_folder
from selfplay.config.schema import Config
from selfplay.diagnosis.findings import GIB, MIB, Finding, needs_engine, ok, problem, warning
from selfplay.engine.policy import LEAST_BUCKET_MIB, bucket_mib

DISK, SHARED = "disk", "shared memory"
LITTLE_GIB, NONE_GIB = 5, 1  # free space that is a warning, and that is a problem
SHM = Path("/dev/shm")
BUCKET_MIB = {"tiny": LEAST_BUCKET_MIB, "smollm2": 109}  # `bucket_mib` of what they are built to


def output_folder(config: Config) -> list[Finding]:
    """Where run directories go."""
    return [folder("output_dir", Path(config.output_dir).absolute(), "output_dir=<folder>")]


def cache_folder(_config: Config) -> list[Finding]:
    """Where built and warmed-up models are kept."""
    return [folder("cache", cache_root().absolute(), f"{CACHE_VARIABLE}=<folder> in the environment")]


def temporary_folder(_config: Config) -> list[Finding]:
    """Where Ray and the sandboxes keep what ends with the run."""
    fix = "TMPDIR=<folder> in the environment"
    try:
        path = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir())
    except FileNotFoundError as error:  # none of the usual ones takes a file
        return [problem(DISK, f"temporary files: {error.strerror}", fix)]
    return [folder("temporary files", path.absolute(), fix)]


def folder(name: str, path: Path, elsewhere: str) -> Finding:
    """Whether files can be made in `path`, or where it would be made, and the free space; `elsewhere` is another."""
    place = next(part for part in (path, *path.parents) if os.path.exists(part))  # False where it may not be seen
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return problem(DISK, f"{name} {path}: nothing can be written to {place} ({error.strerror})", elsewhere)
    free = shutil.disk_usage(place).free
    what = f"{name} {path}: {free / GIB:.1f} GiB free"
    if free < NONE_GIB * GIB:
        return problem(DISK, f"{what}, {NONE_GIB} GiB is the least", f"make room, or {elsewhere}")
    if free < LITTLE_GIB * GIB:
        return warning(DISK, f"{what}, which checkpoints may fill", f"make room, or {elsewhere}")
    return ok(DISK, what)


def shared_memory(config: Config) -> list[Finding]:
    """/dev/shm: Ray's object store, and on the CPU the buffer through which weights travel."""
    wanted = shared_mib(config)
    if wanted == 0:
        return []
    size = f"{-(-wanted // 1024)}g"
    fix = f"docker run --shm-size={size}; outside a container: mount -o remount,size={size} {SHM}"
    if not SHM.is_dir():
        return [warning(SHARED, f"there is no {SHM}: Ray uses a disk instead", fix)]
    total, _, free = shutil.disk_usage(SHM)
    what = f"{SHM}: {free / GIB:.1f} of {total / GIB:.1f} GiB free"
    if free < wanted * MIB:
        return [warning(SHARED, f"{what}; the run wants {wanted} MiB, or it is slow or fails", fix)]
    return [ok(SHARED, what)]


def shared_mib(config: Config) -> int:
    """MiB of shared memory that the run wants on this machine; 0 without an engine."""
    if not needs_engine(config):
        return 0
    store = 0 if config.cluster.ray_address else config.cluster.object_store_mib
    if config.cluster.device != "cpu":
        return store
    if config.backbone.kind == "hf":
        bucket = bucket_mib(model_folder(config.backbone.path) or config.backbone.path)
    else:
        bucket = BUCKET_MIB[config.backbone.kind]
    return store + bucket * config.cluster.world_size
