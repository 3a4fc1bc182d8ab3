"""One record of each published shape, read into an `Item`. Every function raises KeyError for a missing field and
ValueError for one that cannot be used."""

from __future__ import annotations

import ast
import hashlib
import random
import re
from typing import Any

from selfplay.benchmarks.benchmark import Item, Record
from selfplay.benchmarks.humaneval import task_of as humaneval_task
from selfplay.benchmarks.livecodebench import task_of as livecodebench_task
from selfplay.benchmarks.scicode import tasks_of as scicode_tasks

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _text(record: Record, *names: str) -> str:
    """The first of the fields that is there, as text."""
    for name in names:
        if name in record and record[name] is not None:
            return str(record[name]).strip()
    raise KeyError(" or ".join(names))


def _name(record: Record, place: int, *names: str) -> str:
    """The record's own name, or its place."""
    found = next((record[name] for name in names if record.get(name) not in (None, "")), place)
    return str(found)


def _not_empty(value: str, what: str) -> str:
    if not value:
        raise ValueError(f"{what} is empty")
    return value


# ---------------------------------------------------------------- mathematics


def problem_and_answer(record: Record, place: int) -> Item:
    """AMC23, AIME, MATH-500, Minerva: a question and its answer."""
    question = _not_empty(_text(record, "problem", "question"), "problem")
    answer = record.get("answer", record.get("final_answer"))
    if isinstance(answer, str) and answer.startswith("[") and answer.endswith("]"):
        answer = _listed(answer)
    if isinstance(answer, list | tuple):
        answer = ", ".join(map(str, answer))
    if answer is None:
        raise KeyError("answer")
    number = int(answer) if isinstance(answer, float) and answer.is_integer() else answer
    name = _name(record, place, "unique_id", "id", "ID", "problem_id")
    return Item(name, question, _not_empty(str(number).strip(), "answer"))


def _listed(text: str) -> Any:
    """A list that was written as text (`['$2$', '$3$']`); an interval stays the text it is."""
    try:
        return ast.literal_eval(text) if "'" in text or '"' in text else text
    except (ValueError, SyntaxError):
        return text


def gsm8k(record: Record, place: int) -> Item:
    """GSM8K: the answer follows `####` at the end of a solution."""
    _, mark, answer = _text(record, "answer").rpartition("####")
    if not mark:
        raise ValueError("answer: it has no ####")
    return Item(_name(record, place, "id"), _text(record, "question"), _not_empty(answer.strip(), "answer"))


def olympiad(record: Record, place: int) -> Item:
    """OlympiadBench, open-ended mathematics in English: `final_answer` is a list, of which the parts are one answer."""
    answers = record.get("final_answer", record.get("answer"))
    if isinstance(answers, str):
        answers = [answers]
    if not answers:
        raise ValueError("final_answer is empty")
    gold = ", ".join(str(answer).strip().strip("$") for answer in answers)
    return Item(_name(record, place, "id"), _text(record, "question", "problem"), gold)


def open_ended_text(record: Record) -> bool:
    """Whether an OlympiadBench record is one of those that a text model can be asked and a scorer can compare."""
    kind = str(record.get("question_type", "Open-ended"))
    return kind == "Open-ended" and not record.get("images") and str(record.get("modality", "Text-only")) == "Text-only"


# ---------------------------------------------------------------- multiple choice


def _choice(name: str, question: str, options: list[str], right: int) -> Item:
    if not 0 <= right < len(options) <= len(LETTERS):
        raise ValueError(f"the answer is option {right} of {len(options)}")
    return Item(name, _not_empty(question, "question"), LETTERS[right], tuple(options))


def _options(value: Any) -> list[str]:
    """A list of options; from a data frame it is an array."""
    return [str(option) for option in value]


def mmlu_pro(record: Record, place: int) -> Item:
    """MMLU-Pro: up to ten options and the letter of the right one."""
    options = _options(record["options"])
    letter = _text(record, "answer")
    return _choice(_name(record, place, "question_id"), _text(record, "question"), options, LETTERS.index(letter))


def supergpqa(record: Record, place: int) -> Item:
    """SuperGPQA: up to ten options, `answer_letter`, `uuid`."""
    options = _options(record["options"])
    letter = _text(record, "answer_letter")
    return _choice(_name(record, place, "uuid"), _text(record, "question"), options, LETTERS.index(letter))


def gpqa(record: Record, place: int) -> Item:
    """GPQA: one right and three wrong answers, put into an order that depends on the question alone."""
    right = _text(record, "Correct Answer")
    options = [right] + [_text(record, f"Incorrect Answer {i}") for i in (1, 2, 3)]
    question = _text(record, "Question")
    random.Random(hashlib.sha256(question.encode()).digest()).shuffle(options)
    return _choice(_name(record, place, "Record ID"), question, options, options.index(right))


def agieval(record: Record, place: int) -> Item:
    """AGIEval: its own files (passage, question, options, label), or the hub's (query, choices, gold)."""
    if "query" in record:
        options = [_without_letter(option) for option in _options(record["choices"])]
        gold = record["gold"] if isinstance(record["gold"], int) else next(iter(record["gold"]))
        question = re.sub(r"\s*A:.*$", "", _text(record, "query").partition("Answer Choices:")[0], flags=re.DOTALL)
        return _choice(str(place), question.removeprefix("Q:").strip(), options, int(gold))
    question = "\n".join(part for part in (str(record.get("passage") or ""), _text(record, "question")) if part)
    if not record.get("options"):  # its mathematics has no options, and an `answer`
        return Item(str(place), question, _text(record, "answer"))
    options = [_without_letter(option) for option in _options(record["options"])]
    return _choice(str(place), question, options, LETTERS.index(_text(record, "label")))


def _without_letter(option: str) -> str:
    return re.sub(r"^\s*\(?[A-Z]\)\s*", "", option)


# ---------------------------------------------------------------- short text, programs


def bbeh(record: Record, place: int) -> Item:
    """BBEH: a task's input and its target."""
    task = str(record.get("task", ""))
    return Item(f"{task}/{place}" if task else str(place), _text(record, "input", "question"), _text(record, "target"))


def humaneval(record: Record, place: int) -> Item:
    """HumanEval: a header to continue, and a function that checks it."""
    task = humaneval_task(record)
    return Item(task.task_id, task.statement, payload=task)


def livecodebench(record: Record, place: int) -> Item:
    """LiveCodeBench: a statement, public and hidden tests."""
    task = livecodebench_task(record)
    return Item(task.task_id, task.statement, payload=task)


def scicode(record: Record, place: int) -> list[Item]:
    """SciCode: an item a sub-step, asked after the reference code of the steps before it."""
    return [Item(task.task_id, task.statement, payload=task) for task in scicode_tasks(record, {})]


def specification(record: Record, place: int) -> Item:
    """A specification to prove, as `python -m selfplay.algos.ancora.import_roots` writes them."""
    spec = _not_empty(_text(record, "spec"), "spec")
    return Item(_name(record, place, "name", "id"), spec, payload=spec)
