"""The micro-domain of `tiny`: arithmetic that a model of a million parameters can only do with the tool.

It cannot multiply in its head, but it can copy an expression into Python. Half of the executor's demonstrations hold a
slip, each kind rarer than the right way: so the majority of a group is right more often than any one rollout, which
is what self-consistency has to work with.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass

from selfplay.algos.anchorloop.prompts import (
    CODE_CLOSE,
    CODE_OPEN,
    FINAL,
    OUTPUT_CLOSE,
    OUTPUT_OPEN,
    curriculum_messages,
    executor_messages,
)
from selfplay.engine.episode import Message

COMPACT = "compact"


@dataclass(frozen=True)
class Problem:
    """A question, the program that solves it, and its answer."""

    question: str
    program: str
    answer: int
    kind: str


@dataclass(frozen=True)
class Demo:
    """A prompt with the response to imitate; of the response, `mask` pieces alternate: the model's, the tool's, ..."""

    role: str
    messages: list[Message]
    response: str
    pieces: tuple[str, ...]


def _chain(rng: random.Random) -> Problem:
    """Two or three operations on numbers of two digits."""
    numbers = [rng.randint(11, 99) for _ in range(rng.choice((3, 3, 4)))]
    operators = [rng.choice("+-*") for _ in numbers[1:]]
    operators[0] = "*"  # never in one's head
    text = str(numbers[0]) + "".join(f" {o} {n}" for o, n in zip(operators, numbers[1:], strict=True))
    return Problem(f"Compute {text}.", f"print({text})", int(eval(text)), "chain")


def _letters(rng: random.Random) -> Problem:
    """The same with names for two numbers."""
    a, b, c = rng.randint(11, 99), rng.randint(11, 99), rng.randint(2, 9)
    x, y = rng.sample("abkmnpxy", 2)
    text = rng.choice(
        (f"{x} * {y} + {c}", f"{x} * {y} - {x}", f"{c} * {x} * {y}", f"{x} * {x} - {y}", f"{x} * {y} - {c}")
    )
    values = {x: a, y: b}
    question = f"Let {x} = {a} and {y} = {b}. Find {text}."
    return Problem(question, f"{x} = {a}\n{y} = {b}\nprint({text})", int(eval(text, {}, values)), "letters")


def _series(rng: random.Random) -> Problem:
    """A sum over a range."""
    low, high = rng.randint(1, 9), rng.randint(11, 99)
    term = rng.choice(("i", f"{rng.randint(2, 9)} * i", "i * i", f"i * i + {rng.randint(1, 9)}"))
    program = f"print(sum({term} for i in range({low}, {high} + 1)))"
    answer = sum(int(eval(term, {}, {"i": i})) for i in range(low, high + 1))
    return Problem(f"Sum {term} for i from {low} to {high}.", program, answer, "series")


def _remainder(rng: random.Random) -> Problem:
    """A product modulo a number."""
    a, b, m = rng.randint(11, 99), rng.randint(11, 99), rng.randint(7, 97)
    return Problem(f"Find the remainder of {a} * {b} by {m}.", f"print({a} * {b} % {m})", a * b % m, "remainder")


KINDS: tuple[Callable[[random.Random], Problem], ...] = (_chain, _letters, _series, _remainder)


# Every `eval` and `exec` here is of text that this file has just put together; nothing that a model wrote comes near.
def draw(rng: random.Random, kind: int | None = None) -> Problem:
    """A random problem, of one of `KINDS`."""
    return (rng.choice(KINDS) if kind is None else KINDS[kind % len(KINDS)])(rng)


def heldout(n: int = 120, seed: int = 77) -> list[Problem]:
    """The evaluation set: `n` different problems, the kinds by turns; the same for everyone."""
    rng, found = random.Random(seed), dict[str, Problem]()
    while len(found) < n:
        problem = draw(rng, len(found))
        found.setdefault(problem.question, problem)
    return list(found.values())


# ---------------------------------------------------------------- demonstrations


def executor_pieces(program: str, output: int | str, answer: int | str) -> tuple[str, ...]:
    """A response with one program: the model's text, the tool's, the model's."""
    return (
        f"{CODE_OPEN}\n{program}\n{CODE_CLOSE}",
        f"\n{OUTPUT_OPEN}\n{output}\n{OUTPUT_CLOSE}\n",
        f"{FINAL} {answer}",
    )


def slip(problem: Problem, rng: random.Random) -> tuple[str, ...]:
    """A wrong response, of a kind that fits the problem."""
    kinds = ["number", "guess", "operator", "silent"] + (["range"] if problem.kind == "series" else [])
    kind = rng.choice(kinds)
    if kind == "guess":  # no tool: a number of the right size
        size = max(2, len(str(abs(problem.answer))))
        return (f"{FINAL} {rng.randint(10 ** (size - 1), 10**size - 1)}",)
    if kind == "silent":  # the tool, and then no answer
        program, output, _ = executor_pieces(problem.program, problem.answer, problem.answer)
        return (program, output, "done")
    if kind == "range":
        program = problem.program.replace(" + 1)))", ")))")
    elif kind == "operator" and ("+" in problem.program or "*" in problem.program):
        places = [i for i, c in enumerate(problem.program) if c in "+*-"]
        place = rng.choice(places)
        other = rng.choice([o for o in "+*-" if o != problem.program[place]])
        program = problem.program[:place] + other + problem.program[place + 1 :]
    else:  # a digit of one number
        places = [i for i, c in enumerate(problem.program) if c.isdigit()]
        place = rng.choice(places)
        other = rng.choice([d for d in "123456789" if d != problem.program[place]])
        program = problem.program[:place] + other + problem.program[place + 1 :]
    output = run_trusted(program)
    return executor_pieces(program, output, output)


def run_trusted(program: str) -> str:
    """What a program of this file prints: it was written here, not by a model."""
    printed: list[str] = []
    exec(program, {"print": lambda value: printed.append(str(value)), "sum": sum, "range": range})
    return "\n".join(printed)


def demonstrations(
    *, seed: int, n: int, curriculum_share: float, wrong_share: float, forbidden: Collection[str]
) -> list[Demo]:
    """`n` demonstrations of both roles; questions in `forbidden` (the held-out ones) never occur.

    The curriculum agent's tasks carry the right answer three times in four: nobody is ever told.
    """
    rng, out = random.Random(f"{seed} {n} {curriculum_share} {wrong_share}"), list[Demo]()
    while len(out) < n:
        problem = draw(rng)
        if problem.question in forbidden:
            continue
        if rng.random() < curriculum_share:
            answer = problem.answer if rng.random() < 0.75 else rng.randint(10, 9999)
            text = f"<task>\n{problem.question}\n</task>\n<answer>{answer}</answer>"
            out.append(Demo("curriculum", curriculum_messages(COMPACT), text, (text,)))
            continue
        right = executor_pieces(problem.program, problem.answer, problem.answer)
        pieces = slip(problem, rng) if rng.random() < wrong_share else right
        messages = executor_messages(problem.question, COMPACT)
        out.append(Demo("executor", messages, "".join(pieces), pieces))
    return out


def corpus(n: int = 400) -> dict[str, list[str]]:
    """What the tokenizer of `tiny` is made from for this domain: see `selfplay.backbones.tiny.Corpus`."""
    demos = demonstrations(seed=1, n=n, curriculum_share=0.3, wrong_share=0.0, forbidden=())
    texts = [f"user\n{d.messages[0]['content']}" for d in demos] + [f"assistant\n{d.response}" for d in demos]
    phrases = [
        f"{CODE_OPEN}\n", f"\n{CODE_CLOSE}", CODE_CLOSE, f"\n{OUTPUT_OPEN}\n", f"\n{OUTPUT_CLOSE}\n", FINAL,
        "<task>\n", "\n</task>\n<answer>", "</answer>", "solve\n", "Compute ", "Let ", " and ", ". Find ", "Sum ",
        " for i from ", " to ", "Find the remainder of ", " by ", "print(", "print(sum(", " for i in range(", " + 1)))",
        " * ", " + ", " - ", " = ", " % ",
    ]  # fmt: skip
    return {"phrases": phrases, "texts": texts}
