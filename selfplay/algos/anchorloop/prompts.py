"""What both roles are asked, and how their answers are read. The wording never changes during a run: the anchor acts
through rewards and advantages, not through prompts.

`compact` prompts are a few tokens, for models that are warmed up on them; `full` ones are for instruction models.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from selfplay.engine.episode import Message

CODE_OPEN, CODE_CLOSE = "<python>", "</python>"
OUTPUT_OPEN, OUTPUT_CLOSE = "<output>", "</output>"
FINAL = "Final answer:"
MAX_QUESTION = 2000  # characters

_TASK = re.compile(r"<task>\s*(.*?)\s*</task>", re.DOTALL)
_ANSWER = re.compile(r"<answer>\s*(.*?)\s*</answer>", re.DOTALL)
# What has a meaning to us, or to a chat template, and so must not stand in a task.
_MARKS = re.compile(r"</?(task|answer|python|output)>|<\||\|>|" + re.escape(FINAL))
_CODE = re.compile(re.escape(CODE_OPEN) + r"(.*?)" + re.escape(CODE_CLOSE), re.DOTALL)
_FINAL = re.compile(r"^[ \t]*Final answer:[ \t]*(.*?)[ \t.]*$", re.MULTILINE)

_CURRICULUM = """You set problems for a student who is good at mathematics and has a Python interpreter.

Write one new problem that stands on its own, takes several steps, lies between the end of high school and the first \
years of university, and has exactly one numerical answer that a computation can verify. Aim for a problem that such a \
student solves about every second time. Where you want to check a step, write Python between <python> and </python>; \
its output will follow.

End with the problem and its answer in exactly this form:
<task>
the problem
</task>
<answer>the number</answer>"""

_EXECUTOR = """Solve the problem step by step. Where a computation helps, write Python between <python> and </python> \
and print what you need; its output will follow between <output> and </output>. Finish with a line of its own:
Final answer: the number

Problem:
{question}"""


def curriculum_messages(style: str) -> list[Message]:
    """What the curriculum agent is asked; the same for every task."""
    return [{"role": "user", "content": "task" if style == "compact" else _CURRICULUM}]


def executor_messages(question: str, style: str) -> list[Message]:
    """What the executor is asked. Nothing but the question goes in."""
    content = f"solve\n{question}" if style == "compact" else _EXECUTOR.format(question=question)
    return [{"role": "user", "content": content}]


@dataclass(frozen=True)
class Proposal:
    """A task as the curriculum agent wrote it. `reason` is empty where its format is right.

    `answer` serves the format check and is dropped then: no prompt and no label ever sees it.
    """

    question: str
    answer: str
    reason: str


def read_proposal(text: str) -> Proposal:
    """Take a response apart: exactly one task and exactly one answer, the answer last. Whether the answer is a number
    is for `AnswerJudge` to say."""
    tasks, answers = _TASK.findall(text), _ANSWER.findall(text)
    for found, what in ((tasks, "task"), (answers, "answer")):
        if len(found) != 1:
            return Proposal("", "", f"{'no' if not found else 'more than one'} {what}")
    question, answer = tasks[0], answers[0]
    if not question:
        return Proposal("", "", "an empty task")
    if len(question) > MAX_QUESTION:
        return Proposal("", "", "a task that is too long")
    if not text.rstrip().endswith("</answer>") or text.index("<answer>") < text.index("</task>"):
        return Proposal("", "", "text after the answer")
    if _MARKS.search(question):
        return Proposal("", "", "tags inside the task")
    return Proposal(question, answer, "")


def final_answer(text: str) -> str | None:
    """The answer of a response; None unless there is exactly one final line, outside code and its output."""
    shown = re.sub(re.escape(OUTPUT_OPEN) + r".*?" + re.escape(OUTPUT_CLOSE), "", _CODE.sub("", text), flags=re.DOTALL)
    found = _FINAL.findall(shown)
    return found[0] if len(found) == 1 and found[0] else None


def code_to_run(turn: str) -> str | None:
    """The program of a turn that ends with a complete pair of tags; None for any other turn."""
    found = _CODE.findall(turn)
    return found[-1].strip("\n") if found and turn.rstrip().endswith(CODE_CLOSE) else None
