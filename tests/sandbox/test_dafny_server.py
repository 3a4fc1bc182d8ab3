"""The pool of warm servers, with a small program in Dafny's place; then the real one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from selfplay.sandbox import dafny_server
from selfplay.sandbox.dafny_server import ServerPool

# Answers with the decoded source; "die" ends it, "hang" makes it wait.
FAKE = """
import base64, json, os, sys, time
lines = []
for line in sys.stdin:
    lines.append(line.rstrip("\\n"))
    if lines[-1] == "[[DAFNY-CLIENT: EOM]]":
        question = json.loads(base64.b64decode(lines[1]))
        if question["source"] == "die":
            os._exit(3)
        if question["source"] == "hang":
            time.sleep(60)
        print(os.getpid(), lines[0], *question["args"], question["source"])
        print("[SUCCESS] [[DAFNY-SERVER: EOM]]", flush=True)
        lines = []
"""


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[ServerPool]:
    (tmp_path / "server.py").write_text(FAKE)
    servers = ServerPool([sys.executable, "-S", "server.py"], str(tmp_path), size=2)
    yield servers
    servers.close()


def pid_of(answer: str | None) -> int:
    assert answer is not None
    return int(answer.split()[0])


def test_one_server_answers_many_questions(pool: ServerPool) -> None:
    answers = [pool.ask(["/a"], f"method {i}", 10.0) for i in range(4)]
    assert [answer.split(maxsplit=1)[1].splitlines()[0] for answer in answers if answer] == [
        f"verify /a method {i}" for i in range(4)
    ]
    assert len({pid_of(answer) for answer in answers}) == 2  # they take turns


def test_a_dead_or_hanging_server_is_replaced(pool: ServerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pool.ask([], "die", 10.0) is None
    assert pool.ask([], "hang", 0.3) is None
    monkeypatch.setattr("selfplay.sandbox.process.STALL_S", 0.5)
    assert pool.ask([], "hang", 30.0) is None  # stuck long before its time is over
    assert pool.ask([], "fine", 10.0) is not None


def test_a_worn_server_is_replaced(pool: ServerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dafny_server, "QUESTIONS", 1)
    assert len({pid_of(pool.ask([], "x", 10.0)) for _ in range(4)}) == 4


def test_threads_share_the_servers(pool: ServerPool) -> None:
    answers: dict[int, str | None] = {}

    def ask(i: int) -> None:
        answers[i] = pool.ask([], f"source{i}", 20.0)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(f"source{i}" in (answers[i] or "") for i in range(12))
    assert len({pid_of(answer) for answer in answers.values()}) == 2
