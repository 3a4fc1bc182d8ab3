"""The second backend: the `bwrap` command, a fresh interpreter for every run. Slower than zygotes, and not our code.

bwrap makes the namespaces and the root; /tmp, limits, user, capabilities, Landlock and seccomp are put on inside it by
the same functions as in a zygote. It is started with no environment (it would show it to the run) and with no /proc.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfplay.sandbox.python.confinement import DEVICES, TMP, libraries
from selfplay.sandbox.python.result import Ending, RunResult, SandboxError
from selfplay.sandbox.python.slot import ENVIRONMENT, memory_file

_BOOT = "import sys; sys.path.insert(0, '/guard'); from selfplay.sandbox.python.single import main; main()"
_GUARD = "/guard/selfplay/sandbox/python"


class Bubblewrap:
    """A slot like `slot.Slot`, with the same settings, that keeps no process between runs."""

    def __init__(self, settings: Mapping[str, Any], output_kib: int) -> None:
        """Raises SandboxError where there is no `bwrap`."""
        if shutil.which("bwrap") is None:
            raise SandboxError("sandbox.backend: bubblewrap needs `bwrap` (Debian: apt-get install bubblewrap)")
        self.settings, self.output_bytes = dict(settings), output_kib * 1024
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """End a run under way."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)

    def run(self, code: str, stdin: str, wall_s: float) -> RunResult:
        """One run. Raises SandboxError if bwrap could not start it."""
        files = [memory_file(text) for text in (code, stdin, "", "")]
        receive, send = os.pipe()
        started = time.monotonic()
        try:
            process = self._start(files, send)
            os.close(send)
            timeout = self._wait(process, wall_s)
            report = os.read(receive, 65536)
            out, err = (os.pread(fd, self.output_bytes, 0).decode("utf-8", "replace") for fd in files[2:])
        finally:
            for descriptor in (*files, receive):
                os.close(descriptor)
        if not report and not timeout:
            raise SandboxError(f"bwrap could not start a run: {err.strip()[-300:] or 'it said nothing'}")
        layers = {"mounts": "", "network": "", "ipc": "", "processes": "", "root": ""}
        layers |= json.loads(report or b"{}")
        wall = round(time.monotonic() - started, 4)
        status = process.returncode
        if timeout:
            return RunResult(Ending.TIMEOUT, 0, out, err, wall, layers=layers)
        if status > 128:  # bwrap's way to say: ended by a signal
            return RunResult(Ending.KILLED, status - 128, out, err, wall, layers=layers)
        return RunResult(Ending.FAILED if status else Ending.FINISHED, status, out, err, wall, layers=layers)

    def _start(self, files: list[int], report: int) -> subprocess.Popen[bytes]:
        code, stdin, stdout, stderr = files
        arguments = [json.dumps(self.settings), str(code), str(report)]
        with self._lock:
            self._process = subprocess.Popen(
                [*self._command(), *arguments],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env={},
                cwd="/",
                start_new_session=True,
                pass_fds=(code, report),
            )
            return self._process

    def _wait(self, process: subprocess.Popen[bytes], wall_s: float) -> bool:
        """Until it ends: False; or until its time is up: True."""
        try:
            process.wait(wall_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # --die-with-parent: everything inside goes too
            process.wait()
            return True
        return False

    def _command(self) -> list[str]:
        root = os.geteuid() == 0
        command = ["bwrap", "--die-with-parent", "--new-session", "--unshare-ipc", "--unshare-pid", "--unshare-net"]
        command += ["--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox"]
        # For /tmp, and to become the slot's user; all of them are dropped before the program runs.
        capabilities = ["CAP_SYS_ADMIN", "CAP_SETPCAP", *(["CAP_SETUID", "CAP_SETGID"] if root else [])]
        command += [] if root else ["--unshare-user"]
        for capability in capabilities:
            command += ["--cap-add", capability]
        here = Path(__file__).resolve().parent
        interpreter = os.path.realpath(sys.executable)
        shown = {**libraries(self.settings["packages"]), interpreter: interpreter}
        for folder in sorted({str(parent) for place in (*shown, *DEVICES) for parent in Path(place).parents} - {"/"}):
            command += ["--perms", "755", "--dir", folder]  # or they would be root's alone, as /root is outside
        for inside, outside in shown.items():
            command += ["--ro-bind", outside, inside]
            for hidden in ("site-packages", "dist-packages"):
                if os.path.isdir(f"{outside}/{hidden}"):
                    command += ["--tmpfs", f"{inside}/{hidden}", "--remount-ro", f"{inside}/{hidden}"]
        for device in DEVICES:
            command += ["--dev-bind", device, device]
        command += ["--ro-bind", str(here), _GUARD, "--dir", TMP, "--remount-ro", "/"]
        for name, value in ENVIRONMENT.items():
            command += ["--setenv", name, value]
        return [*command, "--", interpreter, "-P", "-s", "-S", "-B", "-c", _BOOT]
