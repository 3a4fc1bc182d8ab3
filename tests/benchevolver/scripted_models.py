"""A scripted evolver and its targets, for one small problem: no model, but every step of the search is real."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from selfplay.algos.benchevolver.models import Call, CallFailed, Reply
from selfplay.benchmarks.code_task import CodeTask
from selfplay.sandbox.judge.cases import StdioTest

SUM = "print(sum(map(int, input().split())))"
SQUARES = "print(sum(int(x) ** 2 for x in input().split()))"
CUBES = "print(sum(int(x) ** 3 for x in input().split()))"
SLOW_SQUARES = (
    "n = [int(x) for x in input().split()]\nif len(n) > 4:\n    while True: pass\nprint(sum(x * x for x in n))"
)
STATEMENT = "A line holds integers. Print the sum of their squares, each taken as often as it occurs."


def code(program: str) -> str:
    return f"Here it is.\n```python\n{program}\n```\n"


def mutated(program: str = SQUARES, family: str = "other powers") -> str:
    return f"<family>{family}</family><idea>squares</idea><why>it only adds</why>\n{code(program)}"


def written(statement: str = STATEMENT, hidden: str = "") -> str:
    small = hidden or "".join(f"<input>{i} {i + 1} -{i}</input>" for i in range(1, 6))
    return (
        f"<statement>{statement}</statement><public><input>1 2 3</input></public><small>{small}</small>"
        "<large>```python\nprint(*range(1, 30))\n```</large>"
    )


Script = dict[str, Callable[[Call, int], str]]  # role, or "mutate" and "write" -> reply to the n-th such call


def kind_of(call: Call) -> str:
    text = call.messages[0]["content"]
    if call.role != "proposer":
        return call.role
    starts = {"You make": "mutate", "Write the": "write", "Solvers understand": "statement"}
    for start, kind in starts.items():
        if text.startswith(start):
            return kind
    return "reference"


class Scripted:
    """Answers every role by its script; what none says is done well, with targets that are right 2 times in 5."""

    name = "scripted"

    def __init__(self, **script: Callable[[Call, int], str]) -> None:
        self.script = script
        self.calls: list[Call] = []

    async def complete(self, call: Call) -> Reply:
        kind = kind_of(call)
        before = sum(kind_of(one) == kind for one in self.calls)
        self.calls.append(call)
        text = self.script[kind](call, before) if kind in self.script else default(kind, call)
        if text == "down":
            raise CallFailed("scripted: status 500 (5 attempts)")
        return Reply(text, 10, 10)


def default(kind: str, call: Call) -> str:
    if kind == "mutate":
        return mutated()
    if kind == "write":
        return written()
    if kind == "brute_force":
        return code(SQUARES)
    if kind == "oracle":
        return code(SQUARES)  # it works its answers out by a program of its own
    if "squares" not in call.messages[0]["content"]:
        return code(SUM)  # the seed is solved every time
    return code(SQUARES if int(call.key[-2]) < 2 else SUM)


def seed(name: str = "sum", **changes: Any) -> CodeTask:
    fields: dict[str, Any] = {
        "task_id": name,
        "statement": f"Two integers are given on a line. Print what they add up to. This is problem {name} of the set.",
        "public": (StdioTest("1 2\n", "3\n"),),
        "hidden": (StdioTest("4 5\n", "9\n"),),
        "reference": SUM,
    }
    return CodeTask(**(fields | changes))
