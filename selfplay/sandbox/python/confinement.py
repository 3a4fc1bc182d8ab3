"""The layers around model-written code, as the zygote and its runs put them on. Standard library only.

Once for a zygote: namespaces of its own (`enclose`) and a root that holds the standard library and nothing else
(`build_root`). Once for a run: a /tmp of its own, limits, another user, no capabilities, Landlock, seccomp (`confine`).
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Mapping
from typing import Any

from selfplay.sandbox.python import kernel
from selfplay.sandbox.python.seccomp import deny_filter

SYSTEM_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
TMP = "/tmp"
MIB = 2**20

Layers = dict[str, str]  # name -> "" where the layer is on, or why it is not


def attempt(layers: Layers, name: str, work: Callable[[], None]) -> bool:
    """Put on a layer; what the machine refuses is written down, not raised."""
    try:
        work()
    except (OSError, KeyError, ValueError) as error:
        layers[name] = f"{type(error).__name__}: {error}"
        return False
    layers[name] = ""
    return True


def enclose(layers: Layers) -> None:
    """Namespaces of the zygote: its own users where it is no root, mounts, processes, network, IPC and host name."""
    uid, gid = os.geteuid(), os.getegid()
    if uid != 0 and attempt(layers, "user", lambda: kernel.unshare(kernel.CLONE_NEWUSER)):
        for file, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{file}", "w") as out:
                out.write(text)
    for name, flag in (
        ("mounts", kernel.CLONE_NEWNS),
        ("network", kernel.CLONE_NEWNET),
        ("ipc", kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS),
        ("processes", kernel.CLONE_NEWPID),
    ):
        attempt(layers, name, lambda flag=flag: kernel.unshare(flag))  # type: ignore[misc]


def libraries(packages: Mapping[str, str]) -> dict[str, str]:
    """What a run may read: place inside -> folder outside. `packages` maps a package's name to its folder."""
    standard = os.path.dirname(os.__file__)
    inside = {standard: standard} | {path: os.path.realpath(path) for path in SYSTEM_LIBRARIES if os.path.isdir(path)}
    return inside | {folder: folder for folder in packages.values()}  # where their modules think that they are


def build_root(staging: str, packages: Mapping[str, str]) -> None:
    """Make a read-only root of libraries and three devices in the folder `staging`, and move into it.

    `/tmp` is an empty folder: every run mounts its own over it. There is no /proc.
    """
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", staging, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=1m,mode=755")
    for inside, outside in libraries(packages).items():
        _bind(outside, staging + inside)
        for hidden in ("site-packages", "dist-packages"):  # of an interpreter that is no virtual environment
            if os.path.isdir(f"{staging}{inside}/{hidden}"):
                flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_RDONLY
                kernel.mount("tmpfs", f"{staging}{inside}/{hidden}", "tmpfs", flags, "size=4k,mode=755")
    for device in DEVICES:
        os.makedirs(os.path.dirname(staging + device), exist_ok=True)
        open(staging + device, "w").close()
        kernel.mount(device, staging + device, None, kernel.MS_BIND)
    os.mkdir(staging + TMP)
    os.mkdir(staging + "/old")
    kernel.pivot_root(staging, staging + "/old")
    os.chdir("/")
    kernel.unmount("/old")
    os.rmdir("/old")
    kernel.mount(None, "/", None, kernel.MS_REMOUNT | kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV)


def _bind(outside: str, inside: str) -> None:
    """Show a folder read-only; flags that its file system has already must be kept."""
    os.makedirs(inside, exist_ok=True)
    kernel.mount(outside, inside, None, kernel.MS_BIND | kernel.MS_REC)
    kept = os.statvfs(inside).f_flag & (kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    flags = kernel.MS_BIND | kernel.MS_REMOUNT | kernel.MS_RDONLY | kernel.MS_NOSUID | kept
    kernel.mount(None, inside, None, flags)


def own_tmp(uid: int, size_mib: int) -> None:
    """A /tmp that this process and its children alone see, and that ends with them."""
    kernel.unshare(kernel.CLONE_NEWNS)
    options = f"size={size_mib}m,nr_inodes=1000,mode=700,uid={uid},gid={uid}"
    kernel.mount("tmpfs", TMP, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, options)


def set_limits(memory_mib: int, cpu_s: float, file_mib: int, processes: int) -> None:
    """The kernel's limits of a process; memory and CPU are counted by process, and a run is one."""
    for what, value in (
        (resource.RLIMIT_AS, memory_mib * MIB),
        (resource.RLIMIT_CPU, int(cpu_s) + 1),
        (resource.RLIMIT_FSIZE, file_mib * MIB),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))


def become(uid: int) -> None:
    """Another user, with no groups; only root can."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def confine(settings: Mapping[str, Any], layers: Layers) -> None:
    """Put the layers of a run on this process, for good. `settings` are the zygote's."""
    attempt(layers, "limits", lambda: set_limits(*settings["limits"]))
    if settings["uid"]:
        attempt(layers, "uid", lambda: become(settings["uid"]))
    attempt(layers, "capabilities", kernel.drop_capabilities)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, 9)  # a change of user has cleared it
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    attempt(layers, "landlock", lambda: kernel.landlock(settings["read"], [TMP, "/dev/null"]))
    attempt(layers, "seccomp", lambda: kernel.load_filter(deny_filter(os.uname().machine)))
