"""Warm Dafny processes: `DafnyServer.exe`, which comes with Dafny 2.3, asked over its pipes.

A start of mono and the compilation of Dafny's code cost most of a second of CPU; a server that has done both answers in
a quarter of that. A server that stalls, dies or has answered many questions is replaced.
"""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from queue import Queue

from selfplay.sandbox.process import Activity

_CLIENT_END = "[[DAFNY-CLIENT: EOM]]"
_SERVER_END = b"[[DAFNY-SERVER: EOM]]"
QUESTIONS = 300  # after which a server is replaced: it grows by some 0.2 MB a question


class Server:
    """One process. Not thread-safe."""

    def __init__(self, command: Sequence[str], folder: str) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.asked = 0

    def ask(self, arguments: Sequence[str], source: str, time_limit_s: float) -> str | None:
        """What the server prints on a program; None if it did not answer in time, and then it is dead."""
        question = {"args": list(arguments), "filename": "program.dfy", "source": source, "sourceIsFile": False}
        encoded = base64.b64encode(json.dumps(question).encode()).decode()
        self.asked += 1
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"verify\n{encoded}\n{_CLIENT_END}\n".encode())
            self.process.stdin.flush()
            answer = self._read(time.monotonic() + time_limit_s)
        except BrokenPipeError:
            answer = None
        if answer is None:
            self.kill()
        return answer

    def _read(self, deadline: float) -> str | None:
        assert self.process.stdout is not None
        descriptor, collected, activity = self.process.stdout.fileno(), b"", Activity(self.process.pid)
        while (now := time.monotonic()) < deadline:
            if select.select([descriptor], [], [], min(0.5, deadline - now))[0]:
                piece = os.read(descriptor, 1 << 16)
                if not piece:
                    return None
                collected += piece
                if _SERVER_END in collected:
                    return collected.decode(errors="replace").replace("\r\n", "\n")
            elif activity.stuck():
                return None
        return None

    @property
    def worn(self) -> bool:
        """Whether it is dead or has done its share."""
        return self.asked >= QUESTIONS or self.process.poll() is not None

    def kill(self) -> None:
        """End the process and its prover."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


class ServerPool:
    """Up to `size` servers, started when they are first needed. Thread-safe: a server answers one thread at a time."""

    def __init__(self, command: Sequence[str], folder: str, size: int) -> None:
        self.command, self.folder = list(command), folder
        self._idle: Queue[Server | None] = Queue()
        self._all: set[Server] = set()
        self._lock = threading.Lock()
        for _ in range(size):
            self._idle.put(None)

    def ask(self, arguments: Sequence[str], source: str, time_limit_s: float) -> str | None:
        """The output on a program; None if the server stalled or died. Waits for a free server."""
        server = self._idle.get()
        try:
            if server is None or server.worn:
                if server is not None:
                    self._drop(server)
                server = Server(self.command, self.folder)
                with self._lock:
                    self._all.add(server)
            answer = server.ask(arguments, source, time_limit_s)
            if answer is None:
                self._drop(server)
                server = None
            return answer
        finally:
            self._idle.put(server)

    def close(self) -> None:
        """End all servers; a later question starts new ones."""
        with self._lock:
            servers, self._all = self._all, set()
        for server in servers:
            server.kill()

    def _drop(self, server: Server) -> None:
        with self._lock:
            self._all.discard(server)
        server.kill()
