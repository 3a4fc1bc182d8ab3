"""Which processes a run cannot do without, and whether they are still there."""

from __future__ import annotations

import time

from selfplay.engine.errors import WorkerLost
from selfplay.engine.heartbeat import Heartbeat
from selfplay.engine.reaper import run_processes

ESSENTIAL = ("ray::", "VLLM::", "EngineCore", "raylet", "gcs_server")


def worker_processes(run_token: str) -> dict[int, str]:
    """The essential processes of the run on this machine: pid -> name. Idle Ray workers come and go."""
    import psutil

    found = {}
    for pid in run_processes(run_token):
        try:
            process = psutil.Process(pid)
            title = process.name() + " " + " ".join(process.cmdline()[:2])
        except psutil.Error:
            continue
        if any(kind in title for kind in ESSENTIAL) and "ray::IDLE" not in title:
            found[pid] = title.strip()[:60]
    return found


def living_nodes() -> dict[str, str]:
    """The nodes of the Ray cluster that are alive: id -> address."""
    import ray

    return {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}


def await_nodes(wanted: int, heartbeat: Heartbeat) -> dict[str, str]:
    """The nodes of the Ray cluster, once there are as many as `wanted`; the watchdog ends a wait that is in vain."""
    seen = 0
    while True:
        nodes = living_nodes()
        if len(nodes) != seen:
            seen = len(nodes)
            heartbeat.beat("machines of the Ray cluster", seen, wanted)
        if seen >= wanted:
            return nodes
        time.sleep(1.0)


def check_alive(watched: dict[int, str], nodes: dict[str, str]) -> None:
    """Raise WorkerLost when one of the processes `watched`, or one of several Ray `nodes`, is gone."""
    import psutil

    for pid, name in watched.items():
        try:
            gone = psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            gone = True
        if gone:
            raise WorkerLost(f"process {pid} ({name}) died")
    if len(nodes) > 1:
        lost = nodes.keys() - living_nodes().keys()
        if lost:
            addresses = ", ".join(sorted(nodes[node] for node in lost))
            raise WorkerLost(f"{len(lost)} of {len(nodes)} Ray nodes lost ({addresses})")
