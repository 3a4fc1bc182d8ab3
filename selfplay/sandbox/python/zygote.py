"""One slot of the sandbox: a process that forks a fresh, confined interpreter for each run. Standard library only.

    host ── control socket ── zygote (pid 1 of its namespace) ── init of a run (pid 1 of another) ── the run itself

The host sends one message a run, with four descriptors: the code, its standard input, and files for its output and
errors. The zygote never reads them, so nothing of one run is in the memory that the next one is forked from. It answers
with how the run ended: that answer is the kernel's word, not the code's, which has neither socket.
"""

from __future__ import annotations

import atexit
import builtins
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any

from selfplay.sandbox.python import kernel
from selfplay.sandbox.python.confinement import Layers, attempt, build_root, confine, enclose, libraries, own_tmp

STATUS = 3  # where a run's init tells the zygote how the run ended


def main() -> None:
    """Entry point; the settings are the first argument, the control socket is standard input."""
    settings: dict[str, Any] = json.loads(sys.argv[1])
    sys.path[:] = [path for path in sys.path if "site-packages" not in path][1:]  # not where we were imported from
    preload(settings)
    layers: Layers = {}
    enclose(layers)
    stub = os.getpid()
    child = os.fork()  # the first child is the first process of the new namespace
    if child:
        os.close(0)
        os._exit(0 if os.waitpid(child, 0)[1] == 0 else 1)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() not in (0, stub):
        os._exit(1)  # it was gone before we could ask to go with it
    Zygote(settings, layers).serve()


def preload(settings: Mapping[str, Any]) -> None:
    """Import what programs may need, while the folder of their packages can still be listed."""
    outside = {os.path.dirname(folder) for folder in settings["packages"].values()}
    sys.path += outside
    for name in (*settings["preload"], *settings["packages"]):
        if not name.endswith(".libs"):
            importlib.import_module(name)
    sys.path[:] = [path for path in sys.path if path not in outside]


class Zygote:
    def __init__(self, settings: dict[str, Any], layers: Layers) -> None:
        self.settings, self.layers = settings, layers
        self.control = socket.socket(fileno=os.dup(0))
        os.dup2(os.open("/dev/null", os.O_RDWR), 0)
        self.own_processes = os.open("/proc/self/ns/pid", os.O_RDONLY) if not layers["processes"] else -1
        if not layers["mounts"]:
            attempt(layers, "root", lambda: build_root(settings["staging"], settings["packages"]))
        else:
            layers["root"] = "there is no mount namespace"
        settings["read"] = [path for path in (*libraries(settings["packages"]), "/dev") if os.path.exists(path)]

    def serve(self) -> None:
        """Run what the host sends until it closes the socket."""
        gc.collect()
        gc.freeze()  # or every collection in a run copies the pages of what was there before
        while True:
            message, descriptors, _, _ = socket.recv_fds(self.control, 256, 4)
            if not message:
                os._exit(0)
            outcome = self._run(json.loads(message), descriptors)
            self.control.sendall(json.dumps(outcome).encode() + b"\n")

    def _run(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        started, deadline = time.monotonic(), time.monotonic() + request["wall_s"]
        receive, send = os.pipe()
        own_namespace = self.own_processes >= 0
        if own_namespace:
            kernel.unshare(kernel.CLONE_NEWPID)
        init = os.fork()
        if init == 0:
            self._init(descriptors, send)
        if own_namespace:
            kernel.libc.setns(self.own_processes, kernel.CLONE_NEWPID)  # or the next unshare would be refused
        for descriptor in (send, *descriptors):
            os.close(descriptor)
        in_time = self._wait(init, deadline)
        os.kill(init, signal.SIGKILL)  # with it goes its namespace, whatever was left in it
        os.waitpid(init, 0)
        told = os.read(receive, 4096)
        os.close(receive)
        outcome: dict[str, Any] = json.loads(told) if told else {"status": None, "layers": {}}
        outcome["layers"] = {**self.layers, **outcome["layers"]}
        return outcome | {"timeout": not in_time, "wall_s": round(time.monotonic() - started, 4)}

    def _wait(self, init: int, deadline: float) -> bool:
        """Until the run's init ends: True; or until its time is up. A host that went away ends everything."""
        pidfd = os.pidfd_open(init)
        try:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            poll.register(self.control, select.POLLHUP)
            while (left := deadline - time.monotonic()) > 0:
                ready = [descriptor for descriptor, _ in poll.poll(left * 1000)]
                if pidfd in ready:
                    return True
                if ready:
                    os._exit(1)
            return False
        finally:
            os.close(pidfd)

    # ---------------------------------------------------------------- in the run's own processes

    def _init(self, descriptors: list[int], status: int) -> None:
        """Pid 1 of a run: a /tmp, the run, and its end. Never returns."""
        try:
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
            self.control.close()
            layers: Layers = {}
            if not self.layers["root"]:
                attempt(layers, "tmp", lambda: own_tmp(self.settings["uid"], self.settings["tmp_mib"]))
            receive, send = os.pipe()
            run = os.fork()
            if run == 0:
                self._run_code(descriptors, send, layers)
            os.close(send)
            layers = json.loads(read_all(receive) or "{}")
            while True:
                pid, ended, usage = os.wait4(-1, 0)
                if pid == run:
                    break
            used = {"cpu_s": round(usage.ru_utime + usage.ru_stime, 4), "peak_mib": usage.ru_maxrss / 1024}
            os.write(status, json.dumps({"status": ended, "layers": layers, **used}).encode())
        finally:
            os._exit(0)

    def _run_code(self, descriptors: list[int], report: int, layers: Layers) -> None:
        """The run itself. Never returns."""
        code = 70
        try:
            source, stdin, stdout, stderr = descriptors
            text = read_all(source)
            for place, descriptor in enumerate((stdin, stdout, stderr)):
                os.dup2(descriptor, place)
            os.dup2(report, STATUS)
            kernel.close_from(STATUS + 1)
            os.chdir("/tmp")
            confine(self.settings, layers)
            os.write(STATUS, json.dumps(layers).encode())
            os.close(STATUS)
            code = execute(text)
        finally:
            os._exit(code)


def execute(text: str) -> int:
    """Run a program as `__main__`, its errors on standard error; the exit code."""
    sys.stdin = os.fdopen(0, encoding="utf-8", errors="replace", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="replace", closefd=False, buffering=1)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="replace", closefd=False, buffering=1)
    streams = sys.stdout, sys.stderr  # the program may put others in their place
    sys.argv = ["program.py"]
    random.seed(0)  # the same program prints the same, in every slot
    vars(builtins).update(exit=sys.exit, quit=sys.exit)  # `site` would define them
    gc.freeze()  # a collection goes through the program's objects alone
    code = 1
    scope = {"__name__": "__main__", "__builtins__": __builtins__}
    try:
        exec(compile(text, "program.py", "exec"), scope)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException as error:
        frames = error.__traceback__.tb_next if error.__traceback__ else None  # without this function's own
        traceback.print_exception(type(error), error, frames, limit=-5)
    # As an interpreter ends: programs print from threads that nobody joins, from handlers at exit, and from streams of
    # their own, which write what they hold when they are collected.
    shutdown = getattr(sys.modules.get("threading"), "_shutdown", None)
    flushes = [stream.flush for stream in (sys.stdout, sys.stderr, *streams)]
    remains = [scope]
    del scope
    for end in (shutdown, atexit._run_exitfuncs, *flushes, remains.clear, gc.collect, *flushes):
        try:
            if end is not None:
                end()
        except BaseException:
            code = code or 1
    return code & 0xFF


def read_all(descriptor: int) -> str:
    parts = []
    while part := os.read(descriptor, 1 << 20):
        parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")
