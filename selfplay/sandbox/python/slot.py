"""The host's side of one zygote: started when needed, asked for one run at a time, replaced when it does not answer."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfplay.sandbox.python.result import Ending, RunResult, SandboxError

START_S = 30.0  # imports of packages included
GRACE_S = 5.0  # beyond a run's own wall clock, for a machine that is busy
# Read by the interpreter, so it is not started with -I: sets and hashes come in one order, in every slot and every run.
ENVIRONMENT = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
_BOOT = "import sys; sys.path.insert(0, {!r}); from selfplay.sandbox.python.zygote import main; main()"


class Slot:
    """`settings` are the zygote's (see `PythonSandbox`); `output_kib` of each output stream are read."""

    def __init__(self, settings: Mapping[str, Any], output_kib: int) -> None:
        self.settings, self.output_bytes = dict(settings), output_kib * 1024
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._staging = ""
        self._errors = memory_file("")  # what a zygote says when it fails

    def run(self, code: str, stdin: str, wall_s: float) -> RunResult:
        """One run, in a fresh zygote if the present one failed. Raises SandboxError when that fails too."""
        for last in (False, True):
            try:
                return self._run(code, stdin, wall_s)
            except (OSError, EOFError, ValueError) as error:
                said = os.pread(self._errors, 1 << 16, 0).decode("utf-8", "replace").strip().splitlines()
                self.close()
                if last:
                    why = said[-1] if said else error
                    raise SandboxError(f"the Python sandbox did not answer, twice: {why}") from error
        raise AssertionError("unreachable")

    def close(self) -> None:
        """End the zygote and all that it started."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._staging:
            shutil.rmtree(self._staging, ignore_errors=True)
        self._process, self._control, self._staging = None, None, ""

    def _start(self) -> socket.socket:
        self._staging = tempfile.mkdtemp(prefix="selfplay-sandbox-")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        package = Path(__file__).resolve().parents[3]
        boot = [sys.executable, "-P", "-s", "-S", "-B", "-c", _BOOT.format(str(package))]
        with theirs:
            self._process = subprocess.Popen(
                [*boot, json.dumps({**self.settings, "staging": self._staging})],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=ENVIRONMENT,
                cwd="/",
                start_new_session=True,  # Ctrl-C is for the run, which then closes its slots
            )
        self._control = ours
        return ours

    def _run(self, code: str, stdin: str, wall_s: float) -> RunResult:
        control = self._control or self._start()
        control.settimeout(wall_s + GRACE_S + START_S)
        files = [memory_file(code), memory_file(stdin), memory_file(""), memory_file("")]
        try:
            socket.send_fds(control, [json.dumps({"wall_s": wall_s}).encode()], files)
            outcome = json.loads(_line(control))
            out, err = (self._read(descriptor) for descriptor in files[2:])
        finally:
            for descriptor in files:
                os.close(descriptor)
        return _result(outcome, out, err)

    def _read(self, descriptor: int) -> str:
        return os.pread(descriptor, self.output_bytes, 0).decode("utf-8", "replace")


def _result(outcome: Mapping[str, Any], stdout: str, stderr: str) -> RunResult:
    status = outcome["status"]
    if outcome["timeout"]:
        ending, code = Ending.TIMEOUT, 0
    elif status is None:
        raise ValueError("a run's first process ended without a word")
    elif os.WIFSIGNALED(status):
        ending, code = Ending.KILLED, os.WTERMSIG(status)
    else:
        code = os.WEXITSTATUS(status)
        ending = Ending.FAILED if code else Ending.FINISHED
    used = {name: float(outcome.get(name, 0.0)) for name in ("wall_s", "cpu_s", "peak_mib")}
    return RunResult(ending, code, stdout, stderr, layers=outcome["layers"], **used)


def memory_file(text: str) -> int:
    """A descriptor of a file in memory that holds `text`, at its beginning."""
    descriptor = os.memfd_create("sandbox")
    data = memoryview(text.encode("utf-8", "replace"))
    while data:
        data = data[os.write(descriptor, data) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _line(control: socket.socket) -> bytes:
    parts = bytearray()
    while not parts.endswith(b"\n"):
        part = control.recv(4096)
        if not part:
            raise EOFError("it ended")
        parts += part
    return bytes(parts)
