"""Environment variables that every process of a run needs, set before torch, Ray or verl are imported.

The reason for each stands beside it; without them the CPU stack starts, and then is slow, noisy or stuck.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping

from selfplay.engine.config import ClusterConfig
from selfplay.engine.processes import run_environment

FSDP_THREADS = "SELFPLAY_FSDP_THREADS"  # read by selfplay.engine.workers


def variables(cluster: ClusterConfig, run_token: str) -> dict[str, str]:
    """The variables for `cluster`; `run_token` marks the run's processes."""
    common = {
        **run_environment(run_token),  # by it the guard finds what to clean up
        FSDP_THREADS: str(cluster.fsdp.threads),
        "VERL_USE_EXTERNAL_MODULES": "selfplay.engine.cpu_platform",  # imported by verl in each process
        "TRANSFER_QUEUE_ENABLE": "1",
        "TQ_NUM_THREADS": "2",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": os.environ.get("HF_HUB_OFFLINE", "1"),  # a run never downloads behind one's back
        "TRANSFORMERS_OFFLINE": os.environ.get("TRANSFORMERS_OFFLINE", "1"),
        "TRANSFORMERS_VERBOSITY": "error",
        "VERL_LOGGING_LEVEL": "WARNING",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DEDUP_LOGS": "0",
        "RAY_worker_niceness": "0",  # at Ray's 15 any other program on the machine starves the run
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        # Without clusters Ray takes 127.0.0.1 for its machine's address, and all of the run listens there alone: its
        # ports ask nobody who they are. (Named after the systems where this is Ray's default; it counts on Linux too.)
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0" if cluster.nodes == 1 and not cluster.ray_address else "1",
    }
    if cluster.device != "cpu":
        return common
    cpu = {
        "VERL_PLATFORM": "cpu",
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # pinning fights with the FSDP ranks for the same cores
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # keeps the single-process executor
        "TORCH_COMPILE_DISABLE": "1",  # compiling the sampler costs 10-17 s and gains nothing here
    }
    if cluster.nodes == 1:
        cpu["GLOO_SOCKET_IFNAME"] = "lo"
    return common | cpu


def apply(cluster: ClusterConfig, run_token: str, environ: MutableMapping[str, str] = os.environ) -> dict[str, str]:
    """Set the variables in `environ` and return them (Ray passes them on to workers on other machines)."""
    values = variables(cluster, run_token)
    environ.update(values)
    return values
