"""Generated demonstrations of both roles, for the supervised warm-up that comes before reinforcement.

Solver: a specification and a body that verifies. Proposer: a seed, a direction and at times a second parent, and a
child that is one focused change of the seed. Both are right by construction, drawn from the ladders of `families`,
unless a share of the solver's answers is spoiled on purpose.
Specifications that equal a forbidden one up to names (the roots, above all the held-out ones) never occur.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from selfplay.algos.ancora.families import FAMILIES
from selfplay.algos.ancora.grammar import Draw, Rung, Task, instantiate, name_key
from selfplay.algos.ancora.prompts import (
    LABELS,
    Message,
    proposer_messages,
    proposer_response,
    solver_messages,
    solver_response,
)

COMPOSED_SHARE = 0.08  # of the solver's demonstrations: two tasks in one method
CROSSOVER_SHARE = 0.35  # of the proposer's demonstrations: a second parent is given
MAX_COMPOSED_CLAUSES = 3  # a method of two tasks stays short enough to read
_FAMILY_WEIGHTS = {"linear": 4, "inverse": 3, "cases": 4, "relation": 3, "bool": 2, "divmod": 2, "two": 2, "loop": 1}


@dataclass(frozen=True)
class Demo:
    """A prompt with the response to imitate. `parents` are the specifications in the prompt, `spec` and `answer` the
    task that the response solves (solver) or states (proposer; `answer` then proves that it can be met)."""

    role: str
    messages: list[Message]
    response: str
    parents: tuple[str, ...]
    spec: str
    answer: str


def generate(
    seed: int,
    n: int,
    forbidden: Collection[str] = (),
    *,
    proposer_share: float = 0.5,
    wrong_share: float = 0.0,
) -> list[Demo]:
    """`n` demonstrations, the same ones for the same arguments. `forbidden` holds `grammar.name_key`s.

    A share `wrong_share` of the solver's answers is spoiled (`spoil`), as in data that nobody verified: reinforcement
    has to find out which of the habits learned from them verify.
    """
    rng = random.Random(seed)
    demos: list[Demo] = []
    while len(demos) < n:
        proposer = rng.random() < proposer_share
        demo = None
        while demo is None or any(name_key(spec) in forbidden for spec in (*demo.parents, demo.spec)):
            demo = _proposer_demo(rng) if proposer else _solver_demo(rng, wrong_share)
        demos.append(demo)
    return demos


def spoil(rng: random.Random, answer: str) -> str:
    """`answer` with a factor that does not belong there.

    No task of the domain asks for such a factor, so a policy that drops the habit loses nothing by it.
    """
    place = answer.index(";")
    return f"{answer[:place]} * {rng.randint(2, 9)}{answer[place:]}"


def _solver_demo(rng: random.Random, wrong_share: float) -> Demo | None:
    composed = rng.random() < COMPOSED_SHARE
    task = compose(_task(rng), _task(rng)) if composed else _task(rng, demonstrated=True)
    if task is None:
        return None
    answer = spoil(rng, task.answer) if rng.random() < wrong_share else task.answer
    return Demo("solver", solver_messages(task.spec), solver_response(answer), (task.spec,), task.spec, answer)


def _proposer_demo(rng: random.Random) -> Demo | None:
    family, draw = _family(rng), Draw.sample(rng)
    ladder = FAMILIES[family]
    at = rng.randrange(len(ladder))
    parent = instantiate(family, ladder[at], draw)
    direction = rng.choice(("up", "down"))
    second = None
    if rng.random() < CROSSOVER_SHARE:
        second = _task(rng)
        if direction == "up":
            child = compose(parent, second)
        else:  # the second parent's family, at its simplest, with the seed's names and literals
            child = instantiate(second.family, FAMILIES[second.family][0], draw)
    else:
        child = _step(rng, ladder, at, parent, draw, direction)
    parents = (parent.spec, second.spec) if second else (parent.spec,)
    if child is None or name_key(child.spec) in map(name_key, parents):
        return None
    if direction == "down" and child.grade > parent.grade:
        return None
    messages = proposer_messages(parent.spec, direction, second.spec if second else None)
    response = proposer_response(_thoughts(parent, child, direction), child.spec)
    return Demo("proposer", messages, response, parents, child.spec, child.answer)


def _step(
    rng: random.Random, ladder: tuple[Rung, ...], at: int, parent: Task, draw: Draw, direction: str
) -> Task | None:
    """One rung up or down with the same names and literals; above the top a second result, below the bottom smaller
    literals."""
    if direction == "up":
        if at + 1 < len(ladder):
            return instantiate(parent.family, ladder[at + 1], draw)
        return compose(parent, instantiate("linear", FAMILIES["linear"][0], draw))
    if at > 0:
        return instantiate(parent.family, ladder[at - 1], draw)
    small = replace(draw, values={**draw.values, "a": "1", "b": "2", "c": "3", "k": "2", "m": "3"})
    return instantiate(parent.family, ladder[0], small)


def compose(first: Task, second: Task) -> Task | None:
    """One method that does both tasks, the second's result renamed; None if the two do not go together."""
    if (
        first.outputs != ("r",)
        or second.outputs not in (("r",), ("b",))
        or "while" in first.statements + second.statements
    ):
        return None
    if len(first.ensures) + len(second.ensures) > MAX_COMPOSED_CLAUSES or first.requires or second.requires:
        return None
    return Task(
        family=first.family,
        grade=min(5, max(first.grade, second.grade) + 1),
        skill="pair",
        inputs=tuple(sorted({*first.inputs, *second.inputs})),
        outputs=("r", "s" if second.outputs == ("r",) else "b"),
        requires=(),
        ensures=first.ensures + tuple(re.sub(r"\br\b", "s", clause) for clause in second.ensures),
        statements=f"{first.statements} " + re.sub(r"\br\b", "s", second.statements),
    )


def _thoughts(parent: Task, child: Task, direction: str) -> tuple[str, ...]:
    """One terse thought per label; see `prompts.LABELS`."""
    return (
        parent.family,
        direction,
        child.skill,
        "none" if direction == "up" else child.skill,
        f"{parent.skill} to {child.skill}",
        f"grade {child.grade}",
        "new",
    )


def _family(rng: random.Random) -> str:
    return rng.choices(list(_FAMILY_WEIGHTS), list(_FAMILY_WEIGHTS.values()))[0]


def _task(rng: random.Random, *, demonstrated: bool = False) -> Task:
    family = _family(rng)
    rungs = [rung for rung in FAMILIES[family] if rung.demonstrated or not demonstrated]
    return instantiate(family, rng.choice(rungs), Draw.sample(rng))


def corpus(seed: int, n: int) -> dict[str, list[str]]:
    """What the embedded backbone's tokenizer is made from: the phrases that all texts share, and chat turns."""
    phrases = [f"\n{label}" for label in LABELS[1:]]
    phrases += [f"<think>\n{LABELS[0]}", "\n</think>\n```dafny\n", "```dafny\n", "\n```"]
    phrases += ["method M(", ": int,", ": int) returns (", ": int)", ": bool)", "\n  requires", "\n  ensures"]
    phrases += [f" {digit}" for digit in range(10)]  # a literal is one token, as a name is
    texts = []
    for demo in generate(seed, n):
        texts += [f"{message['role']}\n{message['content']}" for message in demo.messages]
        texts.append(f"assistant\n{demo.response}")
    return {"phrases": phrases, "texts": texts}
