"""Solved examples in front of a question."""

from __future__ import annotations

from collections.abc import Sequence

from selfplay.algos.ancora.evaluation import few_shot
from selfplay.algos.ancora.prompts import solver_messages, solver_response
from selfplay.engine.episode import Message

SPECS = [f"method M{i}(x: int) returns (r: int)\n  ensures r == x + {i}" for i in range(3)]
SHOTS = [(solver_messages(spec), solver_response(f"{{ r := x + {i}; }}")) for i, spec in enumerate(SPECS)]
ASK = solver_messages("method Q(x: int) returns (r: int)\n  ensures r == -x")


class Words:
    """A session whose tokens are words."""

    def render(self, messages: Sequence[Message]) -> list[int]:
        return list(range(sum(len(message["content"].split()) for message in messages)))


def test_examples_come_before_the_question_as_finished_turns() -> None:
    chat = few_shot(Words(), SHOTS, ASK, room=1000)  # type: ignore[arg-type]
    assert [message["role"] for message in chat] == ["user", "assistant"] * 3 + ["user"]
    assert chat[1]["content"] == "```dafny\n{ r := x + 0; }\n```"
    assert chat[-1] == ASK[0]


def test_what_does_not_fit_is_left_out_and_the_question_never_is() -> None:
    one = len(Words().render([*SHOTS[0][0], {"role": "assistant", "content": SHOTS[0][1]}]))
    ask = len(Words().render(ASK))
    for room, shots in ((0, 0), (ask + one - 1, 0), (ask + one, 1), (ask + 2 * one, 2)):
        assert len(few_shot(Words(), SHOTS, ASK, room)) == 2 * shots + 1  # type: ignore[arg-type]


def test_instructions_are_given_once_and_first() -> None:
    shots = [(solver_messages(spec, style="full"), solver_response("{ }")) for spec in SPECS]
    chat = few_shot(Words(), shots, solver_messages("method Q()", style="full"), 1000)  # type: ignore[arg-type]
    assert [message["role"] for message in chat] == ["system"] + ["user", "assistant"] * 3 + ["user"]
