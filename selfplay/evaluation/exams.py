"""How each kind of benchmark is put to a model and how its answers are scored.

A scorer says right or wrong of whatever a model may write. Where it cannot say (a sandbox or a prover that fails), it
raises: there is no score then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from selfplay.algos.anchorloop.prompts import (
    CODE_CLOSE,
    CODE_OPEN,
    OUTPUT_CLOSE,
    OUTPUT_OPEN,
    executor_messages,
    final_answer,
)
from selfplay.algos.ancora.prompts import parse_answer, solver_messages
from selfplay.algos.benchevolver.attempts import Attempt, grade
from selfplay.algos.benchevolver.compact import wording_of
from selfplay.algos.benchevolver.prompts import asked
from selfplay.benchmarks import extraction, humaneval
from selfplay.benchmarks.benchmark import Item
from selfplay.benchmarks.math_answers import MathAnswers
from selfplay.benchmarks.text_answers import same_text
from selfplay.engine.episode import Message
from selfplay.sandbox.base import Prover, Verdict
from selfplay.sandbox.judge.judge import Judge

NO_ANSWER = "no answer"
_STEPS = "Reason step by step, and put your final answer within \\boxed{}."
_TOOL = (
    f"Solve it step by step. Where a computation helps, write Python between {CODE_OPEN} and {CODE_CLOSE} and print"
    f" what you need; its output will follow between {OUTPUT_OPEN} and {OUTPUT_CLOSE}. Put your final answer within"
    " \\boxed{}."
)
_CHOICE = "Reason step by step, and put the letter of the right answer within \\boxed{}."
_TEXT = "Reason step by step, and end with a line of its own:\nFinal answer: the answer and nothing else"
_COMPLETE = "Complete this function. Answer with the whole function in one ```python block.\n\n```python\n{header}\n```"


@dataclass(frozen=True)
class Score:
    """`extracted` is what was taken for the answer; `verdict` says in a word or two how it did."""

    correct: bool
    verdict: str
    extracted: str | None = None
    detail: str = ""


class Exam(Protocol):
    """One way to ask and to score. Thread-safe."""

    tool: bool  # whether the model may use Python whatever the settings say

    def ask(self, item: Item) -> list[Message]: ...

    def score(self, item: Item, text: str, finished: bool) -> Score:
        """Of a response, without the programs it ran and their output; `finished` is False where it was cut off."""
        ...


def _compared(found: str | None, same: Callable[[str], bool]) -> Score:
    if found is None:
        return Score(False, NO_ANSWER)
    right = same(found)
    return Score(right, "right" if right else "wrong", found)


class MathExam:
    """Mathematics with one answer."""

    def __init__(self, answers: MathAnswers, wording: str, style: str, with_tool: bool, always: bool = False) -> None:
        """`always`: AnchorLoop's own tasks, which are about the tool: Python whatever the settings say."""
        self.answers, self.wording, self.style = answers, wording, style
        self.with_tool, self.tool = with_tool or always, always

    def ask(self, item: Item) -> list[Message]:
        if self.wording == "anchorloop":
            return executor_messages(item.question, self.style)
        return [{"role": "user", "content": f"{item.question}\n\n{_TOOL if self.with_tool else _STEPS}"}]

    def score(self, item: Item, text: str, finished: bool) -> Score:
        found = extraction.answer(text)
        if self.tool:  # AnchorLoop's own tasks, read as in its training
            found = final_answer(text) if finished else None
        return _compared(found, lambda given: self.answers.same(item.gold, given))


class ChoiceExam:
    """Multiple choice; a question without options is mathematics."""

    tool = False

    def __init__(self, answers: MathAnswers) -> None:
        self.answers = answers

    def ask(self, item: Item) -> list[Message]:
        options = [f"({letter}) {option}" for letter, option in zip(extraction.LETTERS, item.options, strict=False)]
        closing = _CHOICE if options else _STEPS
        return [{"role": "user", "content": "\n".join([item.question, *options, "", closing])}]

    def score(self, item: Item, text: str, finished: bool) -> Score:
        if not item.options:
            return _compared(extraction.answer(text), lambda found: self.answers.same(item.gold, found))
        return _compared(extraction.choice(text, len(item.options)), lambda found: found == item.gold)


class TextExam:
    """A short text: a word, a number, a list."""

    tool = False

    def ask(self, item: Item) -> list[Message]:
        return [{"role": "user", "content": f"{item.question}\n\n{_TEXT}"}]

    def score(self, item: Item, text: str, finished: bool) -> Score:
        return _compared(extraction.answer(text), lambda found: same_text(item.gold, found))


class CodeExam:
    """Programs, judged by all of a task's tests. The answer is the last fenced block of a finished response."""

    tool = False

    def __init__(self, judge: Judge, style: str) -> None:
        self.judge, self.wording = judge, wording_of(style)

    def ask(self, item: Item) -> list[Message]:
        task = item.payload
        if "preamble" in task.source:
            return [{"role": "user", "content": _COMPLETE.format(header=task.statement.strip())}]
        return asked(self.wording, task, self.judge.config.wall_s)

    def score(self, item: Item, text: str, finished: bool) -> Score:
        task = item.payload
        if "preamble" in task.source and (code := extraction.program(text)) is not None:
            text = f"```python\n{humaneval.program_of(task, code)}\n```"
        [found] = grade(self.judge, [Attempt(task, extraction.after_thought(text), finished)])
        return Score(found.passed, found.outcome, extraction.program(text), found.detail)


class ProofExam:
    """Programs that must verify against a locked specification."""

    tool = False

    def __init__(self, prover: Prover, style: str, language: str) -> None:
        self.prover, self.style, self.language = prover, style, language

    def ask(self, item: Item) -> list[Message]:
        return solver_messages(item.payload, style=self.style, language=self.language)

    def score(self, item: Item, text: str, finished: bool) -> Score:
        parsed = parse_answer(text, item.payload)
        if parsed.rejection is not None:
            return Score(False, str(parsed.rejection))
        judged = self.prover.verify(item.payload, parsed.text)
        if judged.verdict is Verdict.ERROR:
            raise RuntimeError(f"the prover failed: {judged.detail}")
        return Score(judged.verified, str(judged.verdict), parsed.text, judged.detail)
