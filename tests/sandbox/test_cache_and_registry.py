"""The verdict cache, also after a kill, and building provers by name."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from counting_prover import Counting

from selfplay.sandbox.base import Judgement, Verdict
from selfplay.sandbox.cache import CachedProver, content_key
from selfplay.sandbox.config import DafnyLiteConfig
from selfplay.sandbox.dafny_lite import DafnyLite
from selfplay.sandbox.registry import build_prover

ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), str(Path(__file__).parent)])}
SPEC = "method F(x: int) returns (r: int)\n  ensures r > x"


def test_a_question_is_asked_once_and_errors_again() -> None:
    inner = Counting()
    prover = CachedProver(inner, "s")
    assert prover.verify(SPEC, "1") == prover.verify(SPEC, "1") == Judgement(Verdict.REFUTED, "no", {"x": "1"})
    assert prover.check_spec(SPEC) == prover.check_spec(SPEC)
    assert inner.asked == 2
    assert (prover.hits, prover.misses) == (2, 2)
    prover.verify(SPEC, "broken")
    prover.verify(SPEC, "broken")
    assert inner.asked == 4


def test_the_memory_is_bounded_and_forgets_the_oldest() -> None:
    inner = Counting()
    prover = CachedProver(inner, "s", max_entries=2)
    for answer in ("1", "2", "1", "3", "1"):
        prover.verify(SPEC, answer)
    assert inner.asked == 3
    prover.verify(SPEC, "2")
    assert inner.asked == 4


def test_keys_tell_apart_where_texts_end_and_settings() -> None:
    assert content_key("s", "verify", "ab", "c") != content_key("s", "verify", "a", "bc")
    assert content_key("s", "verify", "a", "b") != content_key("t", "verify", "a", "b")
    assert content_key("s", "verify", "a\ud800", "b") != content_key("s", "verify", "a", "b")


def test_a_file_is_shared_and_survives_torn_lines(tmp_path: Path) -> None:
    path = tmp_path / "new" / "verdicts.jsonl"
    first = CachedProver(Counting(), "s", path)
    first.verify(SPEC, "1")
    first.verify(SPEC, "2")
    first.close()
    path.write_bytes(path.read_bytes() + b'{"key": "torn')
    inner = Counting()
    second = CachedProver(inner, "s", path)
    assert second.verify(SPEC, "1") == Judgement(Verdict.REFUTED, "no", {"x": "1"})
    assert inner.asked == 0
    second.verify(SPEC, "3")
    second.close()
    third = CachedProver(inner := Counting(), "s", path)
    for answer in "123":
        third.verify(SPEC, answer)
    assert inner.asked == 0
    assert CachedProver(Counting(), "other settings", path).verify(SPEC, "1").verdict is Verdict.REFUTED


def test_other_settings_ask_again(tmp_path: Path) -> None:
    CachedProver(Counting(), "s", tmp_path / "v").verify(SPEC, "1")
    inner = Counting()
    CachedProver(inner, "t", tmp_path / "v").verify(SPEC, "1")
    assert inner.asked == 1


def test_several_threads_and_processes_write_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    code = (
        "import sys, threading\n"
        "from selfplay.sandbox.cache import CachedProver\n"
        "from counting_prover import Counting\n"
        "prover = CachedProver(Counting(), 's', sys.argv[1])\n"
        "ask = lambda k: [prover.verify('nonsense' * 50, f'{sys.argv[2]} {k} {i}') for i in range(50)]\n"
        "threads = [threading.Thread(target=ask, args=(k,)) for k in range(4)]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(path), str(number)], env=ENVIRONMENT) for number in range(2)
    ]
    assert [process.wait(timeout=60) for process in processes] == [0, 0]
    inner = Counting()
    prover = CachedProver(inner, "s", path)
    for process in range(2):
        for thread in range(4):
            for index in range(50):
                prover.verify("nonsense" * 50, f"{process} {thread} {index}")
    assert inner.asked == 0


def test_a_killed_process_leaves_what_it_had_found(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    code = (
        "import os, signal, sys\n"
        "from selfplay.sandbox.cache import CachedProver\n"
        "from counting_prover import Counting\n"
        "prover = CachedProver(Counting(), 's', sys.argv[1])\n"
        f"prover.verify({SPEC!r}, '{{ r := x + 1; }}')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(path)], env=ENVIRONMENT, check=False)
    assert killed.returncode == -9
    inner = Counting()
    assert CachedProver(inner, "s", path).verify(SPEC, "{ r := x + 1; }").detail == "no"
    assert inner.asked == 0


def test_threads_may_share_a_prover() -> None:
    prover = CachedProver(Counting(), "s", max_entries=10)
    threads = [
        threading.Thread(target=lambda: [prover.verify(SPEC, str(i % 20)) for i in range(500)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert prover.hits + prover.misses == 2000


def test_provers_by_name(tmp_path: Path) -> None:
    cached = build_prover(DafnyLiteConfig(cache_path=str(tmp_path / "verdicts")))
    assert isinstance(cached, CachedProver)
    assert cached.verify(SPEC, "{ r := x + 1; }").verified
    assert isinstance(build_prover(DafnyLiteConfig(cache=False)), DafnyLite)
    with pytest.raises(ValueError, match="dafny_lite"):
        build_prover(DafnyLiteConfig(name="dafny_light"))
    with pytest.raises(ValueError, match="rlimit"):
        build_prover(DafnyLiteConfig(rlimit=0))
