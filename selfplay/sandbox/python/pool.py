"""The sandbox for model-written Python: a few warm slots, a self-test, and a demanded minimum of protection."""

from __future__ import annotations

import ast
import importlib.util
import os
import queue
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from selfplay.sandbox.config import PythonConfig
from selfplay.sandbox.python.bubblewrap import Bubblewrap
from selfplay.sandbox.python.confinement import TMP
from selfplay.sandbox.python.result import RunResult, SandboxError
from selfplay.sandbox.python.slot import ENVIRONMENT, Slot

FILE_MIB = 8  # the largest file of a run, its output included
FIRST_UID, UIDS = 1_500_000_000, 400_000_000  # of users that no system gives out


class Backend(Protocol):
    """One slot: it runs one program at a time."""

    def run(self, code: str, stdin: str, wall_s: float) -> RunResult: ...

    def close(self) -> None: ...


BACKENDS: dict[str, Callable[[Mapping[str, Any], int], Backend]] = {"zygote": Slot, "bubblewrap": Bubblewrap}


class PythonSandbox:
    """Runs programs in `config.slots` slots. Thread-safe; a caller waits while all are busy.

    Raises:
        SandboxError: a layer of `config.minimum` is not on here; names each with its reason.
    """

    name = "python"

    def __init__(self, config: PythonConfig) -> None:
        self.config = config
        base = FIRST_UID + os.getpid() % (UIDS // 256) * 256
        make = BACKENDS[config.backend]
        self._all = [make(_settings(config, base + number), config.output_kib) for number in range(config.slots)]
        self._free: queue.LifoQueue[Backend] = queue.LifoQueue()  # the slot used last is the warmest
        for slot in reversed(self._all):
            self._free.put(slot)
        self._lock, self._layers = threading.Lock(), dict[str, str]()
        missing = {name: why for name, why in self.layers().items() if why and name in config.minimum}
        missing |= {name: "there is no such layer" for name in config.minimum if name not in self._layers}
        if missing:
            self.close()
            reasons = "; ".join(f"{name} ({why})" for name, why in sorted(missing.items()))
            raise SandboxError(f"sandbox.minimum: this machine does not give {reasons}")

    def run(self, code: str, stdin: str = "", wall_s: float | None = None) -> RunResult:
        """Run a program; `wall_s` overrides the setting."""
        slot = self._free.get()
        try:
            return slot.run(code, stdin, self.config.wall_s if wall_s is None else wall_s)
        finally:
            self._free.put(slot)

    def layers(self) -> dict[str, str]:
        """What a first run reports, and what a probe inside it found to hold."""
        with self._lock:
            if not self._layers:
                self._layers = self_test(self)
            return dict(self._layers)

    def close(self) -> None:
        """End all slots; a later run starts them again."""
        for slot in self._all:
            slot.close()


def _settings(config: PythonConfig, uid: int) -> dict[str, Any]:
    return {
        "uid": uid if os.geteuid() == 0 else 0,
        "limits": [config.memory_mib, config.wall_s, FILE_MIB, config.processes],
        "tmp_mib": config.tmp_mib,
        "preload": list(config.preload),
        "packages": {name: folder for top in config.packages for name, folder in package_folders(top).items()},
    }


def package_folders(name: str) -> dict[str, str]:
    """The folders that an installed package needs: its own, and its bundled libraries.

    Raises:
        SandboxError: it is not installed, or where a run cannot be shown it.
    """
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise SandboxError(f"sandbox.packages: {name!r} is not installed as a package")
    folder = Path(next(iter(spec.submodule_search_locations)))
    if folder.is_relative_to(TMP):
        raise SandboxError(f"sandbox.packages: {name!r} is installed below {TMP}, and every run has a {TMP} of its own")
    extra = folder.with_name(f"{name}.libs")
    return {name: str(folder)} | ({extra.name: str(extra)} if extra.is_dir() else {})


PROBE = """
import os, ctypes
def cannot(work):
    try:
        work()
    except (OSError, MemoryError, ImportError):
        return ""
    return "a probe got through"
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno())
import socket
found = {
    "files": cannot(lambda: open(OUTSIDE)),
    "writes": cannot(lambda: open("/x", "w")) and cannot(lambda: open("/usr/x", "w")),
    "sockets": cannot(socket.socket),
    "programs": cannot(lambda: os.execv("/bin/true", ["true"])),
    "forks": cannot(os.fork),
    "memory": cannot(lambda: bytearray(LIMIT)),
    "environment": "" if not set(os.environ) - KNOWN else "it has variables of the host",
}
print(repr(found))
"""


def self_test(sandbox: PythonSandbox) -> dict[str, str]:
    """Run a probe; a layer that was put on and does not hold is off."""
    limit = (sandbox.config.memory_mib + 64) * 2**20
    known = {*ENVIRONMENT, "LC_CTYPE", "PWD"}  # Python and bwrap add these
    result = sandbox.run(f"OUTSIDE, LIMIT, KNOWN = {__file__!r}, {limit}, {known!r}\n{PROBE}", wall_s=20.0)
    try:
        found = ast.literal_eval(result.stdout.strip())
    except (SyntaxError, ValueError) as error:
        raise SandboxError(f"the sandbox's self-test did not run: {result.ending}: {result.stderr[-300:]}") from error
    return {**result.layers, **found}
