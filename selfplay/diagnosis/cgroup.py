"""The limits that a container, a batch system or a service puts on this process: control groups, of both versions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")


def cpu_limit() -> float | None:
    """Cores that may be used at a time, as a fraction; None without a limit."""
    shares = [float(quota) / float(period) for quota, period in _cpu_quotas() if quota not in ("max", "-1")]
    return min(shares, default=None)


def memory_limit() -> int | None:
    """Bytes that may be used; None without a limit. Version 1 says a number near 2**63 for none."""
    return _smallest("memory", "memory.limit_in_bytes", "memory.max")


def memory_left() -> int | None:
    """Bytes that may be used beyond what is, in the group that has the least left; None without a limit.

    Files that the kernel only keeps for a next reading are as good as free.
    """
    left = []
    for folder, unified in _folders("memory"):
        names = ("memory.max", "memory.current") if unified else ("memory.limit_in_bytes", "memory.usage_in_bytes")
        limit, used = (_number(folder / name) for name in names)
        if limit is not None and used is not None:
            words = _text(folder / "memory.stat").split()
            figures = dict(zip(words[::2], words[1::2], strict=False))
            kept = int(figures.get("inactive_file" if unified else "total_inactive_file", "0"))
            left.append(max(0, limit - used + kept))
    return min(left, default=None)


def process_limit() -> int | None:
    """Processes and threads that may exist; None without a limit."""
    return _smallest("pids", "pids.max", "pids.max")


def _cpu_quotas() -> Iterator[tuple[str, str]]:
    """Quota and period in microseconds, as each group has them."""
    for folder, unified in _folders("cpu"):
        if unified:
            words = _text(folder / "cpu.max").split()
        else:
            words = [_text(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
        if len(words) == 2 and all(words):
            yield words[0], words[1]


def _smallest(controller: str, name: str, unified_name: str) -> int | None:
    found = [_number(folder / (unified_name if unified else name)) for folder, unified in _folders(controller)]
    return min((number for number in found if number is not None), default=None)


def _folders(controller: str) -> Iterator[tuple[Path, bool]]:
    """The group of this process and those above it, and whether they are of version 2.

    Inside a container the path is the host's and only the mount's own top may be there.
    """
    for line in _text(Path("/proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        for mount in [MOUNT / controllers] if controllers else [MOUNT, MOUNT / "unified"]:
            for part in (Path(path), *Path(path).parents):
                yield mount / part.relative_to("/"), not controllers


def _number(file: Path) -> int | None:
    text = _text(file)
    return int(text) if text.isdigit() else None


def _text(file: Path) -> str:
    """What a file holds; "" where there is none."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""
