"""Prompts in both styles, and what is read from responses, good and bad."""

import pytest

from selfplay.algos.ancora.prompts import (
    LABELS,
    Rejection,
    parse_answer,
    parse_proposal,
    proposer_messages,
    proposer_response,
    solver_messages,
    solver_response,
)

SPEC = "method M(x: int) returns (r: int)\n  ensures r > x"
BODY = "{ r := x + 1; }"
THOUGHTS = tuple("abcdefg")
GOOD = proposer_response(THOUGHTS, SPEC)
THINK, BLOCK = GOOD.split("</think>\n")
THINK += "</think>"


def test_well_formed_responses_come_back() -> None:
    assert parse_proposal(GOOD).text == SPEC
    assert parse_answer(solver_response(BODY), SPEC).text == BODY


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ("", Rejection.NO_THINK),
        (BLOCK, Rejection.NO_THINK),
        ("Sure. " + GOOD, Rejection.NO_THINK),
        (GOOD.replace("</think>", ""), Rejection.NO_THINK),
        (THINK + "\n" + GOOD, Rejection.NO_THINK),
        (GOOD.replace("Check:", "Checked:"), Rejection.LABELS),
        (GOOD.replace("Check: g", "Check: "), Rejection.LABELS),
        (GOOD.replace("Check: g", "Check: g\nCheck: g"), Rejection.LABELS),
        (GOOD.replace("Parent core: a\nDirection target: b", "Direction target: b\nParent core: a"), Rejection.LABELS),
        (GOOD.replace("\nCheck:", " Check:"), Rejection.LABELS),
        (GOOD.replace("<think>\n", "<think>\nWell.\n"), Rejection.LABELS),
        (THINK, Rejection.NO_FENCE),
        (GOOD.removesuffix("```"), Rejection.NO_FENCE),
        (GOOD + "\n" + BLOCK, Rejection.EXTRA_FENCE),
        (GOOD + "\nDone.", Rejection.TRAILING_TEXT),
        (THINK + "\nHere:\n" + BLOCK, Rejection.TRAILING_TEXT),
        (THINK + "\n```dafny\n\n```", Rejection.EMPTY),
        (GOOD.replace(SPEC, SPEC + "\n" + BODY), Rejection.HAS_BODY),
        (GOOD.replace(SPEC, SPEC + "\n" + SPEC), Rejection.NOT_ONE_ITEM),
        (GOOD.replace(SPEC, "r > x"), Rejection.NOT_ONE_ITEM),
    ],
)
def test_rejected_proposals(response: str, reason: Rejection) -> None:
    parsed = parse_proposal(response)
    assert parsed.rejection == reason
    assert parsed.text == ""


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (BODY, Rejection.NO_FENCE),
        ("```dafny\n" + BODY, Rejection.NO_FENCE),
        (solver_response(BODY) + "\n" + solver_response(BODY), Rejection.EXTRA_FENCE),
        (solver_response(BODY) + "\nThat proves it.", Rejection.TRAILING_TEXT),
        ("<think>so\n" + solver_response(BODY), Rejection.NO_THINK),
        (solver_response("r := x + 1;"), Rejection.NO_BODY),
        (solver_response(SPEC), Rejection.NO_BODY),
        (solver_response(SPEC.replace("r > x", "true") + "\n" + BODY), Rejection.CHANGED_SPEC),
        (solver_response(SPEC + "\n  ensures true\n" + BODY), Rejection.NO_BODY),
        (solver_response("   "), Rejection.EMPTY),
    ],
)
def test_rejected_answers(response: str, reason: Rejection) -> None:
    assert parse_answer(response, SPEC).rejection == reason


def test_an_answer_may_think_first_and_may_repeat_the_specification() -> None:
    assert parse_answer("<think>add one</think>\n" + solver_response(BODY), SPEC).text == BODY
    whole = solver_response(SPEC.replace("\n  ", "\n") + "\n" + BODY)
    assert parse_answer(whole, SPEC).text == BODY


@pytest.mark.parametrize("style", ["compact", "full"])
def test_prompts_hold_what_they_ask_about(style: str) -> None:
    second = SPEC.replace(">", "<")
    asked = "\n".join(m["content"] for m in proposer_messages(SPEC, "down", second, style=style))
    assert SPEC in asked
    assert second in asked
    assert "down" in asked
    assert SPEC in solver_messages(SPEC, style=style)[-1]["content"]


def test_full_prompts_teach_the_contract() -> None:
    system = proposer_messages(SPEC, "up", style="full", language="Verus")[0]["content"]
    assert [system.index(label) for label in LABELS] == sorted(system.index(label) for label in LABELS)
    assert "```rust" in system
    assert "```dafny" in solver_messages(SPEC, style="full")[0]["content"]


def test_unknown_choices_are_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match="direction: 'sideways' is not allowed; it is one of up, down"):
        proposer_messages(SPEC, "sideways")
    with pytest.raises(ValueError, match="style: 'chatty'"):
        solver_messages(SPEC, style="chatty")
    with pytest.raises(ValueError, match="language: 'Coq'"):
        solver_messages(SPEC, style="full", language="Coq")
