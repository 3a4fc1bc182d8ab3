"""Cores, memory, and the limits on open files, processes and ports."""

from __future__ import annotations

import os
import resource
import socket
from contextlib import ExitStack
from pathlib import Path

from selfplay.config.schema import Config
from selfplay.diagnosis import cgroup
from selfplay.diagnosis.backbone import weights_bytes
from selfplay.diagnosis.findings import GIB, Finding, needs_engine, ok, problem, warning

MACHINE, LIMITS = "machine", "limits"
TIGHT_GIB, RUN_GIB = 8, 6  # a run of the tiny backbone on the CPU takes 5 to 6 GiB
COPIES = 5  # of the weights in a run on the CPU: the actor's, their gradients, two moments, the server's
FEW_FILES, NO_FILES = 4096, 1024
PLENTY = 65536  # `ray.init` raises the soft limit on open files to this, as far as the hard one allows
FEW_PROCESSES, NO_PROCESSES = 4096, 1024  # a run on two cores has some 550 threads, and more cores mean more
PORTS = 16  # taken at once by the trial


def processors(_config: Config) -> list[Finding]:
    """Cores that this process may use."""
    allowed, limit = len(os.sched_getaffinity(0)), cgroup.cpu_limit()
    cores = min(float(allowed), limit or float(allowed))
    what = f"{cores:g} cores" if cores == (os.cpu_count() or 0) else f"{cores:g} of {os.cpu_count()} cores"
    if cores >= 2:
        return [ok(MACHINE, what)]
    fix = "give it two or more (docker run --cpus=2), or cluster.watchdog.startup_s=1800 and patience"
    return [warning(MACHINE, f"{what}: a run is slow, and its start may take longer than the watchdog waits", fix)]


def memory(config: Config) -> list[Finding]:
    """Memory in all and free, within the limit of a container; how much a run wants is known for CPUs only."""
    import psutil

    here = psutil.virtual_memory()
    limit, left = cgroup.memory_limit(), cgroup.memory_left()
    total = min(here.total, limit or here.total)
    free = here.available if left is None else min(here.available, left)
    what = f"{total / GIB:.1f} GiB of memory, {free / GIB:.1f} GiB free"
    if config.cluster.device != "cpu" or not needs_engine(config):
        return [ok(MACHINE, what)]
    bounded = " (docker run --memory=8g raises a container's limit)" if total < here.total else ""
    if total < TIGHT_GIB * GIB:
        fix = f"a machine with {TIGHT_GIB} GiB or more{bounded}"
        return [warning(MACHINE, f"{what}: a run on the CPU takes about {RUN_GIB} GiB", fix)]
    model = weights_bytes(config.backbone)
    wanted = RUN_GIB * GIB + COPIES * 2 * model  # 16-bit files; the CPU calculates in 32 bits
    if wanted > free:
        fix = "end other programs" if wanted <= total else "a smaller backbone, or a machine with GPUs and cluster=gpu"
        return [warning(MACHINE, f"{what}: a run takes about {wanted / GIB:.0f} GiB", fix)]
    return [ok(MACHINE, what)]


def open_files(_config: Config) -> list[Finding]:
    """How many files a process of the run may hold open, once Ray has raised the limit as far as it may."""
    soft, hard = (_bounded(value) for value in resource.getrlimit(resource.RLIMIT_NOFILE))
    reached = max(soft, min(hard, PLENTY))
    what = f"{soft} open files a process" + (f", which Ray raises to {reached}" if reached > soft else "")
    fix = "ulimit -n 65536 (docker run --ulimit nofile=65536:65536; for a user: nofile in /etc/security/limits.conf)"
    if reached < NO_FILES:
        return [problem(LIMITS, f"{what}: too few for Ray and vLLM, which want {FEW_FILES} or more", fix)]
    if reached < FEW_FILES:
        return [warning(LIMITS, f"{what}: Ray and vLLM want {FEW_FILES} or more", fix)]
    return [ok(LIMITS, what)]


def processes(_config: Config) -> list[Finding]:
    """How many processes and threads there may be: this user's, which root is not held to, and the container's."""
    soft = _bounded(resource.getrlimit(resource.RLIMIT_NPROC)[0])
    of_user = PLENTY if os.geteuid() == 0 else soft
    of_group = cgroup.process_limit() or PLENTY
    least = min(of_user, of_group)
    if least >= PLENTY:
        return [ok(LIMITS, "no limit on processes that matters")]
    what = f"{least} processes and threads"
    fix = "ulimit -u 65536" if of_user <= of_group else "docker run --pids-limit=-1 (of a service: TasksMax=infinity)"
    if least < NO_PROCESSES:
        return [problem(LIMITS, f"{what}: too few for Ray and vLLM, which want {FEW_PROCESSES} or more", fix)]
    if least < FEW_PROCESSES:
        return [warning(LIMITS, f"{what}: Ray and vLLM want {FEW_PROCESSES} or more", fix)]
    return [ok(LIMITS, what)]


def ports(config: Config) -> list[Finding]:
    """Whether local connections work: Ray, verl and vLLM take whatever ports are free, none by number."""
    if not needs_engine(config):
        return []
    bounds = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    what = f"{PORTS} free ports of {'-'.join(bounds)} on 127.0.0.1"
    try:
        with ExitStack() as stack:
            servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(PORTS)]
            for server in servers:
                stack.enter_context(socket.create_connection(server.getsockname(), timeout=2))
    except OSError as error:
        fix = "ip link set lo up (in a container, a network with a loopback), a wider net.ipv4.ip_local_port_range"
        return [problem(LIMITS, f"{what} could not be taken and reached: {error}", fix)]
    return [ok(LIMITS, f"{what} taken and reached")]


def _bounded(value: int) -> int:
    """A limit as a number that compares: none is as good as very many."""
    return 2**31 if value == resource.RLIM_INFINITY else value
