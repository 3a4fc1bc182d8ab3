"""Linux calls that Python 3.11 has no function for, by ctypes. Standard library only, as all that a zygote imports."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP = 1, 4, 22
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 47, 4
SECCOMP_MODE_FILTER = 2

_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CAPSET = {"x86_64": 126, "aarch64": 91}
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_CLOSE_RANGE = 436

LANDLOCK_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute (of libraries mapped so), read a file, read a folder
_LANDLOCK_FS = {
    1: (1 << 13) - 1,
    2: (1 << 14) - 1,
    3: (1 << 15) - 1,
    5: (1 << 16) - 1,
}  # ABI -> rights it knows
_LANDLOCK_NET, _LANDLOCK_SCOPES = 0b11, 0b11  # bind and connect; abstract sockets and signals

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(what: str, number: int, *arguments: object) -> int:
    """A system call; raises OSError that names it."""
    return _checked(libc.syscall(ctypes.c_long(number), *arguments), what)


def unshare(flags: int) -> None:
    _checked(libc.unshare(flags), "unshare")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if text is None else text.encode() for text in (source, target, kind)]
    _checked(libc.mount(*words, ctypes.c_ulong(flags), None if data is None else data.encode()), f"mount {target}")


def unmount(target: str) -> None:
    _checked(libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def pivot_root(new: str, old: str) -> None:
    syscall("pivot_root", _PIVOT_ROOT[os.uname().machine], new.encode(), old.encode())


def prctl(option: int, value: int = 0, third: object = 0) -> None:
    _checked(libc.prctl(option, ctypes.c_ulong(value), third, 0, 0), f"prctl {option}")


def close_from(first: int) -> None:
    """Close every descriptor from `first` on."""
    syscall("close_range", _CLOSE_RANGE, ctypes.c_uint(first), ctypes.c_uint(0xFFFFFFFF), ctypes.c_uint(0))


def drop_capabilities() -> None:
    """Of this process and of all it may become."""
    for capability in range(64):
        if libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) != 0:
            break  # above the last that the kernel knows, or not permitted: then there are none to drop
    libc.prctl(PR_CAP_AMBIENT, ctypes.c_ulong(PR_CAP_AMBIENT_CLEAR_ALL), 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    syscall("capset", _CAPSET[os.uname().machine], header, sets)


# ---------------------------------------------------------------- Landlock


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def landlock_abi() -> int:
    """The kernel's Landlock version, 0 where there is none."""
    version = libc.syscall(ctypes.c_long(_LANDLOCK_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return max(0, int(version))


def landlock(read: list[str], write: list[str]) -> None:
    """From now on this process reads only below `read`, and reads and writes only below `write`.

    TCP, and signals to others, are out too where the kernel knows how. Needs PR_SET_NO_NEW_PRIVS.

    Raises:
        OSError: the kernel has no Landlock.
    """
    abi = landlock_abi()
    rights = _LANDLOCK_FS[max(known for known in _LANDLOCK_FS if known <= max(abi, 1))]
    ruleset = _Ruleset(rights, _LANDLOCK_NET if abi >= 4 else 0, _LANDLOCK_SCOPES if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    fd = syscall("landlock", _LANDLOCK_CREATE, ctypes.byref(ruleset), ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        for paths, allowed in ((read, LANDLOCK_READ), (write, rights & ~1)):
            for path in paths:
                parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
                try:
                    mask = allowed if os.path.isdir(path) else allowed & 0b111
                    rule = _PathRule(mask & rights, parent)
                    syscall("landlock", _LANDLOCK_ADD, fd, ctypes.c_int(1), ctypes.byref(rule), ctypes.c_uint32(0))
                finally:
                    os.close(parent)
        syscall("landlock", _LANDLOCK_RESTRICT, fd, ctypes.c_uint32(0))
    finally:
        os.close(fd)


# ---------------------------------------------------------------- seccomp


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def load_filter(bpf: bytes) -> None:
    """Put a seccomp filter (8 bytes an instruction) over this process. Needs PR_SET_NO_NEW_PRIVS."""
    program = _Program(len(bpf) // 8, bpf)
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program))
