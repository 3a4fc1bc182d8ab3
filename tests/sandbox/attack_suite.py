"""The attacks against a sandbox of this machine: `python tests/sandbox/attack_suite.py zygote` prints the table.

Needs the standard library only, so that it can be run by another user with the system's own interpreter.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template

from selfplay.sandbox.config import PythonConfig
from selfplay.sandbox.python.pool import PythonSandbox
from selfplay.sandbox.python.result import Ending, RunResult

sys.path.insert(0, str(Path(__file__).resolve().parent))
from python_attacks import ATTACKS, Attack

WALL_S = 2.0
CANARY = "a file of the host\n"


@dataclass(frozen=True)
class Host:
    """What an attack may try to reach."""

    canary: Path
    process: subprocess.Popen[bytes]
    listeners: tuple[socket.socket, ...]

    def values(self) -> dict[str, str]:
        return {
            "canary": str(self.canary),
            "pid": str(self.process.pid),
            "port": str(self.listeners[0].getsockname()[1]),
            "abstract": self.listeners[1].getsockname()[1:].decode(),
        }

    def harm(self) -> str:
        """What an attack did to it, empty for nothing."""
        if self.canary.read_text() != CANARY:
            return "the file was changed"
        if self.process.poll() is not None:
            return "the process was killed"
        for listener in self.listeners:
            try:
                listener.accept()
                return "somebody connected"
            except BlockingIOError:
                pass
        return ""


@contextmanager
def host() -> Iterator[Host]:
    with tempfile.TemporaryDirectory() as folder, socket.socket() as tcp, socket.socket(socket.AF_UNIX) as abstract:
        canary = Path(folder) / "canary"
        canary.write_text(CANARY)
        canary.chmod(0o666)
        tcp.bind(("127.0.0.1", 0))
        abstract.bind(f"\0selfplay-attack-{os.getpid()}".encode())
        for listener in (tcp, abstract):
            listener.listen()
            listener.setblocking(False)
        process = subprocess.Popen(["sleep", "600"])
        try:
            yield Host(canary, process, (tcp, abstract))
        finally:
            process.kill()
            process.wait()


def config(backend: str, **settings: object) -> PythonConfig:
    return PythonConfig(backend=backend, wall_s=WALL_S, memory_mib=256, **settings)  # type: ignore[arg-type]


def judge(attack: Attack, sandbox: PythonSandbox, target: Host) -> tuple[RunResult, str]:
    """Run an attack; what it achieved, empty for nothing."""
    result = sandbox.run(Template(attack.code).safe_substitute(target.values()))
    if "ESCAPED" in result.stdout + result.stderr:
        return result, next(line for line in (result.stdout + result.stderr).splitlines() if "ESCAPED" in line)
    if result.ending not in attack.endings:
        return result, f"ended as {result.ending}: {(result.stdout + result.stderr)[-300:]}"
    if target.harm():
        return result, target.harm()
    after = sandbox.run("import builtins, os\nprint(6 * 7, os.listdir('/tmp'))")
    if (after.ending, after.stdout) != (Ending.FINISHED, "42 []\n"):
        return result, f"the next run: {after.ending} {after.stdout!r} {after.stderr!r}"
    return result, ""


def main(backend: str) -> int:
    os.environ["A_SECRET"] = "secret"
    sandbox, failed = PythonSandbox(config(backend)), 0
    print(f"backend {backend}, uid {os.getuid()}: {' '.join(k for k, why in sandbox.layers().items() if not why)}")
    print(f"not on: {({k: why for k, why in sandbox.layers().items() if why}) or 'none'}")
    with host() as target:
        for attack in ATTACKS:
            result, achieved = judge(attack, sandbox, target)
            failed += bool(achieved)
            print(f"{attack.name:28} {result.ending:9} {result.wall_s:6.2f} s  {achieved or 'contained'}", flush=True)
    sandbox.close()
    print(f"{len(ATTACKS)} attacks, {failed} not contained")
    return failed


if __name__ == "__main__":
    sys.exit(min(1, main(*sys.argv[1:])))
