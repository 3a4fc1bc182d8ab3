"""The command as a process, against an endpoint of our own: it scores, is interrupted, goes on, and compares."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

QUESTIONS = 30


class Model(ThreadingHTTPServer):
    """Answers chat completions with what `reply` makes of the messages; 429 now and then, as real ones do."""

    daemon_threads = True

    def __init__(self, reply: Callable[[list[dict[str, str]]], str], delay_s: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.reply, self.delay_s = reply, delay_s
        self.asked: list[str] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Model

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.asked.append(request["messages"][0]["content"])
            busy = len(self.server.asked) % 11 == 5
        time.sleep(self.server.delay_s)
        message = {"role": "assistant", "content": self.server.reply(request["messages"])}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        data = json.dumps({**body, "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}).encode()
        self.send_response(429 if busy else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def serving(reply: Callable[[list[dict[str, str]]], str], delay_s: float = 0.0) -> Iterator[Model]:
    model = Model(reply, delay_s)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    try:
        yield model
    finally:
        model.shutdown()
        model.server_close()


def adds(messages: list[dict[str, str]], wrong_above: int = 20) -> str:
    """A model that can add, up to `wrong_above`."""
    a, b = map(int, re.findall(r"\d+", messages[0]["content"])[:2])
    return rf"It is \boxed{{{a + b if a <= wrong_above else 0}}}."


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    lines = [json.dumps({"problem": f"What is {i} + 1?", "answer": str(i + 1)}) for i in range(QUESTIONS)]
    (folder / "math500.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def command(model: Model, data: Path, out: Path, *more: str) -> list[str]:
    settings = [f"endpoint.base_url={model.url}", "endpoint.model=m", "endpoint.backoff_s=0.01", f"data.dir={data}"]
    settings += [f"output_dir={out}", "suites=[math500]", "at_once=4", *more]
    return [sys.executable, "-m", "selfplay.evaluate", *settings]


def run(words: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=300)


def samples(out: Path, benchmark: str = "math500") -> list[dict[str, Any]]:
    [path] = out.glob(f"*/samples/{benchmark}.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def results(out: Path) -> dict[str, Any]:
    [path] = out.glob("*/results.json")
    return dict(json.loads(path.read_text()))


def test_it_scores_and_says_what_it_did(tmp_path: Path, data: Path) -> None:
    with serving(adds) as model:
        done = run(command(model, data, tmp_path / "out"), tmp_path)
    assert done.returncode == 0, done.stderr
    found = results(tmp_path / "out")["benchmarks"]["math500"]
    assert found["accuracy"] == pytest.approx(21 / QUESTIONS)
    assert found["interval"][0] < found["accuracy"] < found["interval"][1]
    assert (found["complete"], found["items"], found["no_answer"]) == (True, QUESTIONS, 0.0)
    assert "math500: 30 questions" in done.stdout
    assert "sha256" in done.stdout
    first = next(record for record in samples(tmp_path / "out") if record["item"] == "3")
    assert first["output"] == r"It is \boxed{4}."
    assert (first["extracted"], first["gold"], first["correct"], first["verdict"]) == ("4", "4", True, "right")
    assert "What is 3 + 1?" in first["prompt"][0]["content"]


@pytest.mark.parametrize(
    "how",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_interrupted_at_random_it_goes_on_to_the_same_result(tmp_path: Path, data: Path, how: signal.Signals) -> None:
    with serving(adds, delay_s=0.1) as model:
        whole = tmp_path / "whole"
        assert run(command(model, data, whole, "samples=2"), tmp_path).returncode == 0
        asked = len(model.asked)
        out = tmp_path / "broken"
        words = command(model, data, out, "samples=2")
        for turn in range(3):
            process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            deadline = time.monotonic() + 60
            before = _count(out)
            while process.poll() is None and _count(out) < before + 3 and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(random.Random(turn).uniform(0, 0.15))
            process.send_signal(how)
            _, said = process.communicate(timeout=60)
            if process.returncode == 0:
                break
            expected = -int(how) if how == signal.SIGKILL else 130
            assert process.returncode == expected, said
        done = run(words, tmp_path)
        assert done.returncode == 0, done.stderr
        assert results(out) == results(whole)
        keys = [(record["item"], record["sample"]) for record in samples(out)]
        assert len(keys) == len(set(keys)) == 2 * QUESTIONS
        assert len(model.asked) - asked < 2 * QUESTIONS * 1.2 + 3 * 4 + 5  # retries of 429, and what was in flight


def _count(out: Path) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in out.glob("*/samples/*.jsonl"))


def test_a_limit_is_extended_without_asking_again(tmp_path: Path, data: Path) -> None:
    with serving(adds) as model:
        assert run([*command(model, data, tmp_path / "out"), "--limit", "10"], tmp_path).returncode == 0
        assert results(tmp_path / "out")["benchmarks"]["math500"]["items"] == 10
        assert run(command(model, data, tmp_path / "out"), tmp_path).returncode == 0
        answered = set(model.asked)
        assert len(answered) == QUESTIONS
        assert results(tmp_path / "out")["benchmarks"]["math500"]["items"] == QUESTIONS


def test_the_tool_is_run_and_its_output_read(tmp_path: Path, data: Path) -> None:
    def with_tool(messages: list[dict[str, str]]) -> str:
        if len(messages) == 1:
            a = re.findall(r"\d+", messages[0]["content"])[0]
            return f"<python>print({a} + 1)</python>\n<output>999</output> \\boxed{{999}}"  # it imagines the output
        shown = re.search(r"<output>\n(.*)\n</output>", messages[-1]["content"])
        assert shown is not None
        return rf"So \boxed{{{shown[1]}}}"

    with serving(with_tool) as model:
        done = run(command(model, data, tmp_path / "out", "tool.use=true", "limit=5"), tmp_path)
    assert done.returncode == 0, done.stderr
    found = samples(tmp_path / "out")
    assert all(record["correct"] and record["calls"] == 1 for record in found)
    assert all("999" not in record["output"] for record in found)


def test_a_printed_box_is_no_answer(tmp_path: Path, data: Path) -> None:
    def cheat(messages: list[dict[str, str]]) -> str:
        return "<python>print(r'\\boxed{1}')</python>" if len(messages) == 1 else "That is all."

    with serving(cheat) as model:
        assert run(command(model, data, tmp_path / "out", "tool.use=true", "limit=1"), tmp_path).returncode == 0
    [record] = samples(tmp_path / "out")
    assert (record["correct"], record["verdict"]) == (False, "no answer")


def test_two_evaluations_are_compared_question_by_question(tmp_path: Path, data: Path) -> None:
    folders = []
    for name, limit in (("good", 100), ("bad", 9)):
        with serving(lambda messages, limit=limit: adds(messages, limit)) as model:
            assert run(command(model, data, tmp_path / name, f"name={name}"), tmp_path).returncode == 0
        folders += [str(path) for path in (tmp_path / name).iterdir()]
    done = run([sys.executable, "-m", "selfplay.evaluate", "--compare", *folders], tmp_path)
    assert done.returncode == 0, done.stderr
    row = done.stdout.splitlines()[-1].split()
    assert row[:5] == ["math500", "30", "100.0", "33.3", "-66.7"]
    assert row[-1] == "*"


def test_missing_sets_are_a_line_and_the_others_run(tmp_path: Path, data: Path) -> None:
    with serving(adds) as model:
        done = run([*command(model, data, tmp_path / "out"), "suites=[math,lcb_pro,dafny2verus]"], tmp_path)
    assert done.returncode == 0, done.stderr
    missing = [line for line in done.stderr.splitlines() if line.startswith("missing  ")]
    assert len(missing) == 8
    assert all(line.count(":") >= 1 for line in missing)
    assert results(tmp_path / "out")["suites"]["math"]["missing"] == [
        "amc23", "aime24", "aime25", "gsm8k", "minerva", "olympiadbench",
    ]  # fmt: skip


def test_an_endpoint_that_is_not_there_ends_with_a_line(tmp_path: Path, data: Path) -> None:
    with serving(adds) as model:
        words = command(model, data, tmp_path / "out", "endpoint.attempts=2")
    done = run(words, tmp_path)  # it is closed now
    assert done.returncode == 1
    assert "failed: m: APIConnectionError" in done.stderr
    assert "Traceback" not in done.stderr


def test_one_bad_question_costs_the_others_nothing(tmp_path: Path, data: Path) -> None:
    def sometimes(messages: list[dict[str, str]]) -> str:
        if "What is 3 +" in messages[0]["content"]:
            raise ValueError("the stub closes the connection")
        return adds(messages, 100)

    with serving(sometimes) as model:
        words = command(model, data, tmp_path / "out", "endpoint.attempts=2")
        done = run(words, tmp_path)
        assert done.returncode == 1
        assert "not scored: math500 3: CallFailed" in done.stdout
        assert "1 samples have no score; the same command asks for them again" in done.stderr
        assert len(samples(tmp_path / "out")) == QUESTIONS - 1
        assert results(tmp_path / "out")["benchmarks"]["math500"]["complete"] is False
        model.reply = lambda messages: adds(messages, 100)
        assert run(words, tmp_path).returncode == 0
    assert results(tmp_path / "out")["benchmarks"]["math500"]["complete"] is True


def test_a_full_disk_is_said_and_nothing_is_lost(tmp_path: Path, data: Path) -> None:
    with serving(adds) as model:
        words = command(model, data, tmp_path / "out")
        limited = ["bash", "-c", 'ulimit -f 6; exec "$@"', "bash", *words]  # in blocks of 1024 bytes
        done = subprocess.run(
            limited, cwd=tmp_path, capture_output=True, text=True, timeout=300, preexec_fn=_ignore_file_limit
        )
        assert done.returncode == 1, done.stdout + done.stderr
        assert "File too large" in done.stderr
        assert 0 < len(samples(tmp_path / "out")) < QUESTIONS  # every line is whole
        assert run(words, tmp_path).returncode == 0
    assert results(tmp_path / "out")["benchmarks"]["math500"]["complete"] is True


def _ignore_file_limit() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["suites=[maths]"],
            "error: suites: 'maths' is not allowed; it is a suite (math, general,",
        ),
        (["suits=[math]"], "did you mean suites?"),
        (["limit=-1"], "error: limit: -1 is not allowed"),
        (["model=nowhere"], "error: model: 'nowhere' is not allowed; there is no such folder"),
        (["--limits", "3"], "error: --limits: there is no such flag"),
        (["suites=[lcb_pro]"], "error: suites: none of the benchmarks is at hand"),
        (["--compare", "a"], "error: --compare: it takes two folders"),
        (["--compare", "a", "b"], "error: a: it is no folder of an evaluation"),
        (["endpoint.base_url=http://a:b@x/v1", "endpoint.model=m"], "error: endpoint.base_url: no name and password"),
        (["data.since=2025-2-1"], "error: data.since: '2025-2-1' is not allowed; it is a day"),
        (["data.dir=nowhere"], "error: data.dir: 'nowhere' is not allowed; there is no such folder"),
        (["name=../../x"], "error: name: '../../x' is not allowed"),
        (["endpoint.base_url=ftp://x"], "error: endpoint.base_url: 'ftp://x' is not allowed"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    done = run([sys.executable, "-m", "selfplay.evaluate", *words], tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_holds_no_model_is_named(tmp_path: Path) -> None:
    done = run([sys.executable, "-m", "selfplay.evaluate", f"model={tmp_path}"], tmp_path)
    assert done.returncode == 2
    assert "holds neither a model (config.json) nor a run's checkpoint" in done.stderr


def test_other_data_under_the_same_name_is_refused(tmp_path: Path, data: Path) -> None:
    with serving(adds) as model:
        assert run(command(model, data, tmp_path / "out", "limit=3"), tmp_path).returncode == 0
        path = data / "math500.jsonl"
        path.write_text(path.read_text().replace("What is", "How much is"))
        done = run(command(model, data, tmp_path / "out", "limit=3"), tmp_path)
    assert done.returncode == 2
    assert "its samples are of other data" in done.stderr


def test_keys_of_endpoints_are_nowhere(tmp_path: Path, data: Path) -> None:
    secret = "sk-planted-7261"
    with serving(adds) as model:
        words = command(model, data, tmp_path / "out", "endpoint.key_variable=PLANTED", "limit=2")
        done = subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, timeout=120, env={**os.environ, "PLANTED": secret}
        )
    assert done.returncode == 0, done.stderr
    assert secret not in done.stdout + done.stderr
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file() and secret in path.read_text()]


@pytest.mark.slow
def test_a_model_is_served_here_and_killed_at_random(tmp_path: Path) -> None:
    """The real server on `tiny`, untrained: the same samples whatever interrupts it, and no server is left behind."""
    words = [sys.executable, "-m", "selfplay.evaluate", "limit=3"]  # as the README has it
    assert run([*words, f"output_dir={tmp_path / 'whole'}"], tmp_path).returncode == 0
    broken = [*words, f"output_dir={tmp_path / 'broken'}"]
    process = subprocess.Popen(broken, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while process.poll() is None and not _count(tmp_path / "broken") and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    time.sleep(5)
    left = subprocess.run(["pgrep", "-f", f"{tmp_path}/broken"], capture_output=True, text=True)
    assert left.stdout == ""
    assert run(broken, tmp_path).returncode == 0
    assert results(tmp_path / "whole") == results(tmp_path / "broken")
    for name in ("micro_ancora", "micro_anchorloop", "micro_benchevolver"):
        one, other = (
            {(r["item"], r["sample"]): r["output"] for r in samples(tmp_path / folder, name)}
            for folder in ("whole", "broken")
        )
        assert one == other
        assert len(samples(tmp_path / "broken", name)) == len(one) == 12
