"""Secrets in the environment and among the settings turn up in no output and in no file of any command."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from planted import environment, in_bytes, in_folder, plant
from scripted_endpoint import Behaviour, Handler, answer, endpoint
from scripted_models import seed
from test_report import ancora

from selfplay import doctor, evaluate, train
from selfplay.algos.benchevolver.config import EVOLVER_ROLES
from selfplay.benchmarks import livecodebench

PLANTED = plant()


def run(words: Sequence[str], folder: Path, **more: str) -> tuple[int, str]:
    """Exit code and output of a command; nothing planted is in the output, or in any file of `folder`."""
    environ = environment(PLANTED, SELFPLAY_CACHE_DIR=str(folder / "cache"), **more)
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, timeout=120)
    said = done.stdout + done.stderr
    assert in_bytes(said, PLANTED) == set()
    assert in_folder(folder, PLANTED) == set()
    return done.returncode, said.decode()


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (["selfplay.train", "dry_run=true", "logging=wandb"], {0}),
        (["selfplay.train", "--cfg", "job", "logging=wandb"], {0}),
        pytest.param(["selfplay.doctor"], {0, 1}, marks=pytest.mark.slow),
        pytest.param(["selfplay.doctor", "--json"], {0, 1}, marks=pytest.mark.slow),
    ],
)
def test_what_is_printed_about_a_run_holds_none(words: list[str], codes: set[int], tmp_path: Path) -> None:
    code, said = run(words, tmp_path)
    assert code in codes
    assert len(said) > 500


@pytest.mark.slow
def test_a_report_holds_none(tmp_path: Path) -> None:
    code, _ = run(["selfplay.report", str(ancora(tmp_path / "run"))], tmp_path)
    assert code == 0
    assert (tmp_path / "run" / "report" / "index.html").stat().st_size > 1000


# ---------------------------------------------------------------- an endpoint's key


def guarded(handler: Handler, request: dict[str, Any]) -> None:
    """Answers to the planted key alone, and repeats any other: there are servers that do."""
    given = handler.headers["Authorization"]
    if given == f"Bearer {PLANTED['OPENAI_API_KEY']}":
        answer(handler, request)
    else:
        handler.reply(401, json.dumps({"error": {"message": f"{given} is not allowed"}}).encode())


def broken(handler: Handler, request: dict[str, Any]) -> None:
    """A body that is no answer and holds the key."""
    handler.reply(200, json.dumps({"choices": handler.headers["Authorization"]}).encode())


def asked(url: str, folder: Path, *more: str) -> list[str]:
    """An evaluation of two questions."""
    data = folder / "data"
    data.mkdir()
    lines = [json.dumps({"problem": f"What is {i} + 1?", "answer": str(i + 1)}) for i in range(2)]
    (data / "math500.jsonl").write_text("\n".join(lines) + "\n")
    settings = [f"endpoint.base_url={url}", "endpoint.model=m", "endpoint.backoff_s=0.01", "endpoint.attempts=2"]
    settings += [f"data.dir={data}", f"output_dir={folder / 'out'}", "suites=[math500]"]
    return ["selfplay.evaluate", *settings, *more]


def test_the_key_that_an_endpoint_takes_is_kept_nowhere(tmp_path: Path) -> None:
    with endpoint(lambda number: guarded) as server:
        code, said = run(asked(server.url, tmp_path), tmp_path)
    assert code == 0, said
    assert len(server.requests) == 2
    assert list(tmp_path.glob("out/*/samples/math500.jsonl"))


@pytest.mark.parametrize(
    ("behave", "variable", "said"),
    [
        (guarded, "LAB_DATABASE_PASSWORD", "401: Error code: 401 - Bearer <the key> is not allowed"),
        pytest.param(broken, "OPENAI_API_KEY", "samples have no score", marks=pytest.mark.slow),
    ],
)
def test_a_key_that_a_server_repeats_is_not_passed_on(
    behave: Behaviour, variable: str, said: str, tmp_path: Path
) -> None:
    with endpoint(lambda number: behave) as server:
        code, console = run(asked(server.url, tmp_path, f"endpoint.key_variable={variable}"), tmp_path)
    assert code == 1
    assert said in console


def searched(url: str, folder: Path, variable: str) -> list[str]:
    """A search that asks an endpoint for everything, and starts no engine."""
    settings = f"{{base_url:'{url}',model:m,backoff_s:0.01,attempts:2,key_variable:{variable}}}"
    words = ["selfplay.train", "algo=benchevolver", "backbone.prompts=full", f"output_dir={folder / 'outputs'}"]
    words += ["algo.rl.steps=0", "algo.warmup.steps=0", "algo.evolution.steps=1", f"algo.endpoints.all={settings}"]
    (folder / "seeds.jsonl").write_text(livecodebench.lines_of([seed("a")]))
    words.append(f"algo.seeds={folder / 'seeds.jsonl'}")
    return [*words, "algo.roles.targets=[all]", *(f"algo.roles.{role}=all" for role in EVOLVER_ROLES)]


def test_a_run_s_files_hold_no_key_that_a_server_repeats(tmp_path: Path) -> None:
    """driver.log has the whole traceback, with what the server said."""
    with endpoint(lambda number: guarded) as server:
        code, said = run(searched(server.url, tmp_path, "AWS_SECRET_ACCESS_KEY"), tmp_path)
    assert code == 1
    assert "refuses 'm': 401" in said
    (log,) = tmp_path.glob("outputs/benchevolver/*/logs/driver.log")
    assert "EndpointRefused" in log.read_text()


@pytest.mark.slow
def test_nobody_there(tmp_path: Path) -> None:
    code, said = run(asked("http://127.0.0.1:9/v1", tmp_path), tmp_path)
    assert code == 1
    assert "no score" in said


# ---------------------------------------------------------------- secrets among the settings

SECRET = PLANTED["HF_TOKEN"]
PASSWORD = f"http://user:{SECRET}@127.0.0.1/v1"


@pytest.mark.parametrize(
    "setting",
    [
        f"algo.endpoints.big.base_url={PASSWORD}",
        f"algo.endpoints.big.base_url=ftp://user:{SECRET}@127.0.0.1",
        f"algo.endpoints.big={{base_url:'{PASSWORD}',model:m}}",
        f"algo.endpoints.big.api_key={SECRET}",
        f"algo.endpoints.big={{base_url:'http://127.0.0.1/v1',model:m,api_key:{SECRET}}}",
        f"output_dir=s3://user:{SECRET}@bucket/runs",
        f"cluster.ray_address=ray://user:{SECRET}@127.0.0.1:10001",
        f"backbone.path=https://user:{SECRET}@example.org/model",
        f"logging.wandb.api_key={SECRET}",
        f"+hf_token={SECRET}",
        f"token={SECRET}",
    ],
)
@pytest.mark.parametrize("command", [train, doctor])
def test_a_secret_among_the_settings_is_refused_and_not_repeated(
    command: Any, setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command.main(["algo=benchevolver", setting]) == 2
    console = capsys.readouterr()
    assert SECRET not in console.out + console.err
    assert console.err.startswith(f"error: {setting.partition('=')[0]}: no ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "setting",
    [
        f"endpoint.base_url={PASSWORD}",
        f"endpoint.base_url=ftp://user:{SECRET}@127.0.0.1",
        f"endpoint.api_key={SECRET}",
        f"endpoint.key_variable=sk-{SECRET}",
        f"model=https://user:{SECRET}@example.org/model",
    ],
)
def test_an_evaluation_refuses_them_too(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    base = [] if "base_url" in setting or "model" in setting else ["endpoint.base_url=http://127.0.0.1:9/v1"]
    assert evaluate.main([*base, "endpoint.model=m", setting]) == 2
    console = capsys.readouterr()
    assert SECRET not in console.out + console.err
    assert console.err.startswith(f"error: {setting.partition('=')[0]}: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("setting", ["algo.solver.max_tokens=64", "name=tokens", "algo.eval.more.key1=x"])
def test_settings_that_only_sound_like_secrets_are_taken(setting: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(["--cfg", "job", setting]) == 0
    assert setting.partition("=")[2] in capsys.readouterr().out


# ---------------------------------------------------------------- the search itself


def test_what_is_planted_would_be_found(tmp_path: Path) -> None:
    value = PLANTED["HF_TOKEN"]
    (tmp_path / "plain").write_text(f"token={value}\n")
    for shift in range(3):
        (tmp_path / f"base64-{shift}").write_bytes(base64.b64encode(b"x" * shift + f"{value}\n".encode()))
    (tmp_path / f"in-{value}").write_text("")
    found = in_folder(tmp_path, PLANTED)
    assert len(found) == 5
    assert all(line.startswith("HF_TOKEN in ") for line in found)
