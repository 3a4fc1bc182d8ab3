"""What is taken for the answer of a response, and that nothing is taken from one that gives none."""

from __future__ import annotations

import pytest

from selfplay.benchmarks.extraction import answer, boxed, choice, program
from selfplay.benchmarks.text_answers import same_text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"so \boxed{1} and at last \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\fbox{3}", "3"),
        (r"\boxed{12", None),  # cut off
        (r"\boxed{}", None),
        ("Final answer: 12\n", "12"),
        ("**Final answer:** 12", "12"),
        ("Final answer: 1\nno\nFinal answer: 2", "2"),
        ("I think the answer is 42.", "42"),
        ("The answer is 4.5. Done", "4.5"),
        ("#### 18", "18"),
        ("We get 3, then 4, then 5", None),  # no guess from the last number
        (r"<think>\boxed{1}</think> Final answer: 2", "2"),
        (r"<think>maybe \boxed{41}? or", None),  # cut off inside a thought
        ("Final Answer: 42", "42"),
        ("### Final Answer\n42", "42"),
        ("Answer: 42", "42"),
        ("**Answer:** 42", "42"),
        ("Final answer:\n42", "42"),
        ("The required answer is 42.", "42"),
        (r"\boxed{42}. This is in the form \boxed{}.", "42"),
        ("If the answer is negative we stop.\n#### 42", "42"),
        (r"\boxed{1} and \boxed{2}", "1, 2"),
        ("\\boxed{41}\nWait, recheck.\nFinal answer: 42", "42"),
        ("Final answer: 42</s>", "42"),
        (r"The answer is: $\boxed{B}$", "B"),
        (r"\boxed{\boxed{7}}", r"\boxed{7}"),
        (r"<think>it may be \boxed{1}</think> I do not know", None),
        ("", None),
    ],
)
def test_answer(text: str, found: str | None) -> None:
    assert answer(text) == found


def test_a_box_that_is_not_closed_is_none() -> None:
    assert boxed(r"\boxed{1} \boxed{2") == (9, "1")


@pytest.mark.parametrize(
    ("text", "options", "found"),
    [
        (r"\boxed{B}", 4, "B"),
        (r"\boxed{\text{(C)}}", 4, "C"),
        (r"\boxed{\textbf{D}}", 4, "D"),
        ("The correct answer is (A).", 4, "A"),
        ("The answer is B) 12 apples", 4, "B"),
        ("Final answer: J", 10, "J"),
        ("Final answer: J", 4, None),  # there is no such option
        ("B\n", 4, "B"),
        ("A is wrong, B too, so C it must be", 4, None),
        ("A\nB\nC\nD", 4, "D"),
        ("**Answer: B**", 4, "B"),
        ("The correct option is B.", 4, "B"),
        ("The correct answer is option B.", 4, "B"),
        (r"\boxed{\text{Option B}}", 4, "B"),
        (r"\boxed{\mathbf{\text{B}}}", 4, "B"),
        (r"\boxed{b}", 4, "B"),
        (r"\boxed{\left(B\right)}", 4, "B"),
        (r"\boxed{A, B, C, D}", 4, None),
        (r"\boxed{A \text{ or } B}", 4, None),
        (r"\boxed{B\text{ is wrong}}", 4, None),
        ("The answer is I don't know", 10, None),
        (r"\boxed{C_2H_6}", 4, None),
        (r"\boxed{A} and \boxed{B}", 4, None),
        ("Final answer: Because", 4, None),
        ("", 4, None),
    ],
)
def test_choice(text: str, options: int, found: str | None) -> None:
    assert choice(text, options) == found


def test_the_last_whole_block_is_the_program() -> None:
    assert program("```python\na = 1\n```\nor\n```\nb = 2\n```\n") == "b = 2\n"
    assert program("```python\na = 1\n") is None
    assert program("a = 1") is None


@pytest.mark.parametrize(
    ("target", "given", "right"),
    [
        ("(A)", "a", True),
        ("(A)", "(B)", False),
        ("Yes", "yes.", True),
        ("yes", "no", False),
        ("4", "4.0", True),
        ("4", "40", False),
        ("1,200", "1200", True),
        ("[1, 2]", "1,2", True),
        ("1, 2", "2, 1", False),
        ('"blue"', "blue", True),
        ("blue", "blue and green", False),
        (r"x", r"\text{x}", True),
        ("x", "", False),
    ],
)
def test_short_texts(target: str, given: str, right: bool) -> None:
    assert same_text(target, given) is right
