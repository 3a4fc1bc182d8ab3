"""Solved examples in front of a question."""

from __future__ import annotations

from collections.abc import Sequence

from selfplay.algos.ancora.config import AncoraConfig
from selfplay.algos.ancora.evaluation import Examiner, few_shot
from selfplay.algos.ancora.prompts import solver_messages, solver_response
from selfplay.curriculum.roots import Root
from selfplay.engine.episode import Message
from selfplay.sandbox.dafny_lite import DafnyLite

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


def test_a_question_is_not_among_its_own_examples() -> None:
    """In test-time training the suites hold roots, whose proofs may be known."""
    roots = [Root(f"r{i}", spec, answer="{ r := x; }") for i, spec in enumerate(SPECS)]
    algo = AncoraConfig()
    algo.eval.shots = 3
    examiner = Examiner(Words(), DafnyLite(), algo, "compact", "Dafny", roots)  # type: ignore[arg-type]
    chat = examiner._ask(Root("again", SPECS[1].replace("x", "other")))
    assert [message["content"] for message in chat[::2]][:2] == [f"solve\n{SPECS[i]}" for i in (0, 2)]
    assert len(chat) == 5


def test_instructions_are_given_once_and_first() -> None:
    shots = [(solver_messages(spec, style="full"), solver_response("{ }")) for spec in SPECS]
    chat = few_shot(Words(), shots, solver_messages("method Q()", style="full"), 1000)  # type: ignore[arg-type]
    assert [message["role"] for message in chat] == ["system"] + ["user", "assistant"] * 3 + ["user"]
