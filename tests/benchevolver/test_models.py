"""Calls: retried, bounded, kept, and answered from the log."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from scripted_endpoint import BAD, answer, endpoint, status

from selfplay.algos.benchevolver.models import (
    Budget,
    BudgetConfig,
    BudgetSpent,
    Call,
    CallFailed,
    CallLog,
    ChatModel,
    Endpoint,
    EndpointConfig,
    EndpointRefused,
    Models,
    NotInLog,
    Recorded,
    Reply,
)


def call(text: str = "hello", *key: str | int) -> Call:
    return Call("solver", [{"role": "user", "content": text}], key or (0,))


def config(url: str, attempts: int = 4) -> EndpointConfig:
    return EndpointConfig(url, "m", timeout_s=1.0, attempts=attempts, backoff_s=0.01)


class Counting:
    """A model that counts."""

    def __init__(self, name: str = "counting", tokens: int = 5) -> None:
        self.name, self.tokens, self.asked, self.at_once, self.most = name, tokens, 0, 0, 0

    async def complete(self, call: Call) -> Reply:
        self.asked += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0.01)
        self.at_once -= 1
        return Reply(f"{self.asked}", self.tokens, self.tokens)


def models(tmp_path: Path, model: ChatModel, budget: BudgetConfig | None = None, at_once: int = 16) -> Models:
    log = CallLog(tmp_path / "calls.jsonl")
    return Models({"solver": model}, log, Budget(budget or BudgetConfig()), at_once, {model.name: (1.0, 2.0)})


def test_an_answer_comes_back_with_its_tokens() -> None:
    with endpoint(lambda number: answer) as server:
        reply = asyncio.run(Endpoint(config(server.url)).complete(call()))
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens, reply.finished) == ("echo: hello", 7, 3, True)
    assert server.requests[0]["temperature"] == 1.0


@pytest.mark.parametrize("kind", BAD)
def test_a_misbehaving_endpoint_is_asked_again(kind: str) -> None:
    with endpoint(lambda number: BAD[kind] if number < 2 else answer) as server:
        reply = asyncio.run(Endpoint(config(server.url)).complete(call()))
    assert reply.text == "echo: hello"
    assert len(server.requests) == 3


@pytest.mark.parametrize("kind", BAD)
def test_and_given_up_in_time(kind: str) -> None:
    started = time.monotonic()
    with endpoint(lambda number: BAD[kind]) as server, pytest.raises(CallFailed, match=r"2 attempts"):
        asyncio.run(Endpoint(config(server.url, attempts=2)).complete(call()))
    assert len(server.requests) == 2
    assert time.monotonic() - started < 6


@pytest.mark.parametrize("code", [400, 401, 403, 404])
def test_what_no_retry_changes_ends_at_once(code: int) -> None:
    with endpoint(lambda number: status(code)) as server, pytest.raises(EndpointRefused, match=f"'m': {code}"):
        asyncio.run(Endpoint(config(server.url)).complete(call()))
    assert len(server.requests) == 1


def test_the_key_is_read_from_the_environment_and_never_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "secret-key")
    with endpoint(lambda number: answer) as server:
        model = Endpoint(EndpointConfig(server.url, "m", key_variable="A_KEY"))
        asyncio.run(models(tmp_path, model).complete(call()))
    assert "secret-key" not in (tmp_path / "calls.jsonl").read_text()


def test_what_was_answered_is_not_asked_again(tmp_path: Path) -> None:
    model = Counting()
    first = models(tmp_path, model)
    assert asyncio.run(first.complete(call("a"))).text == "1"
    assert asyncio.run(first.complete(call("a"))).text == "1"
    assert asyncio.run(first.complete(call("a", 1))).text == "2"  # another attempt is another call
    assert model.asked == 2
    again = models(tmp_path, Counting())
    assert asyncio.run(again.complete(call("a", 1))).text == "2"
    assert (again.asked, again.answered_from_log) == (0, 1)
    assert again.budget.tokens == 20  # what earlier launches spent counts


def test_another_checkpoint_is_another_model(tmp_path: Path) -> None:
    asyncio.run(models(tmp_path, Counting("policy-1")).complete(call()))
    later = Counting("policy-2")
    asyncio.run(models(tmp_path, later).complete(call()))
    assert later.asked == 1


def test_a_replay_needs_no_model_and_invents_nothing(tmp_path: Path) -> None:
    asyncio.run(models(tmp_path, Counting("m")).complete(call("a")))
    replay = models(tmp_path, Recorded("m"))
    assert asyncio.run(replay.complete(call("a"))).text == "1"
    with pytest.raises(NotInLog, match="'m' to solver 0"):
        asyncio.run(replay.complete(call("b")))


def test_a_torn_last_record_is_dropped(tmp_path: Path) -> None:
    run = models(tmp_path, Counting())
    asyncio.run(run.complete(call("a")))
    asyncio.run(run.complete(call("b")))
    path = tmp_path / "calls.jsonl"
    path.write_bytes(path.read_bytes()[:-7])
    again = models(tmp_path, Counting())
    assert len(again.log) == 1
    asyncio.run(again.complete(call("b")))
    assert len(models(tmp_path, Counting()).log) == 2


@pytest.mark.parametrize(
    ("budget", "answered"),
    [(BudgetConfig(calls=3), 3), (BudgetConfig(tokens=25), 3), (BudgetConfig(cost=30e-6), 2), (BudgetConfig(), 6)],
)
def test_a_budget_stops_new_calls(budget: BudgetConfig, answered: int, tmp_path: Path) -> None:
    model = Counting()  # 5 tokens in at 1, 5 out at 2: 15e-6 a call
    run = models(tmp_path, model, budget, at_once=1)

    async def six() -> int:
        done = await asyncio.gather(*[run.complete(call("x", i)) for i in range(6)], return_exceptions=True)
        assert all(isinstance(one, Reply | BudgetSpent) for one in done)
        return sum(isinstance(one, Reply) for one in done)

    assert asyncio.run(six()) == answered == model.asked == len(run.log)


def test_no_more_calls_at_once_than_allowed(tmp_path: Path) -> None:
    model = Counting()

    async def many() -> None:
        run = models(tmp_path, model, at_once=3)
        await asyncio.gather(*[run.complete(call("x", i)) for i in range(12)])

    asyncio.run(many())
    assert model.most == 3
