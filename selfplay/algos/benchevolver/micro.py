"""The micro-domain of `tiny`: programs on one line of integers, made of steps.

A seed has one step; a mutation puts one more into the solution. A model of a million parameters can learn to turn each
clause of a statement into its line. Half-learned is what makes a task hard here: the more steps, the more of the
solver's demonstrations hold a slip, so one step is solved every time and four are solved now and then. How hard a task
is in fact is measured, as everywhere.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from selfplay.algos.benchevolver.candidate import Mutation
from selfplay.algos.benchevolver.compact import Compact
from selfplay.benchmarks.code_task import CodeTask
from selfplay.engine.episode import Message
from selfplay.sandbox.judge.cases import StdioTest

READ = "a = list(map(int, input().split()))"
MOST_STEPS = 4

# family -> clause of the statement, line of the program, smallest and largest number that stands for {k}
FAMILIES: dict[str, tuple[str, str, int, int]] = {
    "sort": ("Sort.", "a.sort()", 0, 0),
    "reverse": ("Reverse.", "a.reverse()", 0, 0),
    "square": ("Square each.", "a = [x * x for x in a]", 0, 0),
    "unique": ("Drop repeats.", "a = list(dict.fromkeys(a))", 0, 0),
    "running": ("Take running sums.", "a = [sum(a[:i + 1]) for i in range(len(a))]", 0, 0),
    "differences": ("Take differences.", "a = [y - x for x, y in zip(a, a[1:])]", 0, 0),
    "even": ("Keep even ones.", "a = [x for x in a if x % 2 == 0]", 0, 0),
    "add": ("Add {k} to each.", "a = [x + {k} for x in a]", 2, 9),
    "scale": ("Multiply by {k}.", "a = [x * {k} for x in a]", 2, 9),
    "modulo": ("Take modulo {k}.", "a = [x % {k} for x in a]", 3, 9),
    "above": ("Keep those above {k}.", "a = [x for x in a if x > {k}]", 2, 9),
    "skip": ("Skip the first {k}.", "a = a[{k}:]", 1, 3),
    "rotate": ("Rotate by {k}.", "a = a[{k}:] + a[:{k}]", 1, 3),
    "repeat": ("Repeat {k} times.", "a = a * {k}", 2, 3),
}
ENDS: dict[str, tuple[str, str]] = {
    "all": ("Print all.", "print(*a)"),
    "sum": ("Print the sum.", "print(sum(a))"),
    "count": ("Print the count.", "print(len(a))"),
    "largest": ("Print the largest.", "print(max(a, default=0))"),
}


@dataclass(frozen=True)
class Step:
    """A step of a family, with its number."""

    family: str
    k: int = 0

    @property
    def clause(self) -> str:
        return FAMILIES[self.family][0].format(k=self.k)

    @property
    def line(self) -> str:
        return FAMILIES[self.family][1].format(k=self.k)


@dataclass(frozen=True)
class Program:
    """Steps and an end: both the statement and its solution."""

    steps: tuple[Step, ...]
    end: str

    @property
    def statement(self) -> str:
        return " ".join(["Read numbers.", *(step.clause for step in self.steps), ENDS[self.end][0]])

    @property
    def code(self) -> str:
        return "\n".join([READ, *(step.line for step in self.steps), ENDS[self.end][1]])

    @property
    def families(self) -> list[str]:
        return [step.family for step in self.steps]


def draw_step(rng: random.Random, without: Collection[str] = ()) -> Step:
    family = rng.choice([name for name in FAMILIES if name not in without])
    return Step(family, rng.randint(*FAMILIES[family][2:]))


def draw(rng: random.Random, steps: int) -> Program:
    """A random program whose steps are of different families."""
    chosen: list[Step] = []
    while len(chosen) < steps:
        chosen.append(draw_step(rng, [step.family for step in chosen]))
    return Program(tuple(chosen), rng.choice(list(ENDS)))


def harder(program: Program, rng: random.Random, used: Collection[str]) -> tuple[Program, Step]:
    """One step more, of a family that is neither in the program nor in `used` if there is one, anywhere in it."""
    without = {*program.families, *used}
    step = draw_step(rng, without if len(without) < len(FAMILIES) else program.families)
    place = rng.randint(0, len(program.steps))
    return replace(program, steps=(*program.steps[:place], step, *program.steps[place:])), step


def slip(program: Program, rng: random.Random) -> Program:
    """A program that is wrong in one place."""
    steps, kind = list(program.steps), rng.choice(("lost", "order", "other", "end"))
    place = rng.randrange(len(steps))
    if kind == "lost":
        del steps[place]
    elif kind == "order":
        steps[place - 1], steps[place] = steps[place], steps[place - 1]
    elif kind == "other":
        steps[place] = draw_step(rng, program.families)
    else:
        return replace(program, end=rng.choice([end for end in ENDS if end != program.end]))
    return replace(program, steps=tuple(steps))


# ---------------------------------------------------------------- tasks


def numbers(rng: random.Random, low: int, high: int) -> str:
    """A line of small integers, with repeats."""
    return " ".join(str(rng.randint(1, 12)) for _ in range(rng.randint(low, high)))


def run_trusted(program: Program, line: str) -> str:
    """What a program prints for an input line. The code was put together in this file; no model's comes here."""
    printed: list[str] = []
    scope = {"input": lambda: line, "print": lambda *values: printed.append(" ".join(map(str, values)))}
    exec(program.code, scope)
    return "\n".join(printed) + "\n"


def task(program: Program, name: str, rng: random.Random) -> CodeTask:
    """A task with tests of all sizes."""
    lines = [numbers(rng, *size) for size in ((4, 6), (4, 5), (6, 7), (6, 8), (9, 12), (30, 30))]
    tests = [StdioTest(line + "\n", run_trusted(program, line)) for line in lines]
    return CodeTask(
        task_id=name,
        statement=program.statement,
        public=tuple(tests[:1]),
        hidden=tuple(tests[1:]),
        reference=program.code,
        difficulty=str(len(program.steps)),
        source={"platform": "selfplay"},
    )


def seed_programs(n: int = 28) -> list[Program]:
    """Programs of one step, every family twice with different ends."""
    rng, ends, found = random.Random(11), list(ENDS), []
    for place in range(n):
        family = list(FAMILIES)[place % len(FAMILIES)]
        step = Step(family, rng.randint(*FAMILIES[family][2:]))
        end = "all" if place < len(FAMILIES) else ends[1 + place % 3]
        found.append(Program((step,), end))
    return list(dict.fromkeys(found))


def seeds() -> list[CodeTask]:
    rng = random.Random(12)
    return [task(program, f"seed-{place:02d}", rng) for place, program in enumerate(seed_programs())]


def heldout_programs(n: int = 90) -> list[Program]:
    """Two to four steps by turns, no two alike: what evolution should lead to, drawn without it."""
    rng, found = random.Random(77), dict[str, Program]()
    while len(found) < n:
        program = draw(rng, 2 + len(found) % 3)
        found.setdefault(program.statement, program)
    return list(found.values())


def heldout() -> list[CodeTask]:
    rng = random.Random(78)
    return [task(program, f"heldout-{place:02d}", rng) for place, program in enumerate(heldout_programs())]


# ---------------------------------------------------------------- demonstrations


@dataclass(frozen=True)
class Demo:
    """A prompt with the response to imitate."""

    role: str
    messages: list[Message]
    response: str


SHARES = {  # of the demonstrations
    "target": 0.40,
    "mutate": 0.14,
    "write": 0.16,
    "brute_force": 0.08,
    "oracle": 0.06,
    "problem": 0.04,
    "reference": 0.03,
    "inputs": 0.03,
    "statement": 0.03,
    "quality": 0.03,
}


def slips(steps: int, slip_share: float) -> float:
    """How often a demonstration of a solution with so many steps holds a slip: never with one, more with every step."""
    return float(1.0 - (1.0 - slip_share) ** (steps - 1))


def demonstrations(*, seed: int, n: int, slip_share: float, forbidden: Collection[str]) -> list[Demo]:
    """`n` demonstrations of every role; statements in `forbidden` (the held-out ones) never occur."""
    rng, out = random.Random(f"{seed} {n} {slip_share}"), list[Demo]()
    roles, weights = list(SHARES), list(SHARES.values())
    while len(out) < n:
        program = draw(rng, rng.choices(range(1, MOST_STEPS + 1), (0.3, 0.3, 0.25, 0.15))[0])
        if program.statement in forbidden:
            continue
        demo = _demo(rng.choices(roles, weights)[0], program, rng, slip_share)
        if not any(statement in demo.response or statement in demo.messages[0]["content"] for statement in forbidden):
            out.append(demo)
    return out


def _demo(role: str, program: Program, rng: random.Random, slip_share: float) -> Demo:
    asked, statement = Compact(), program.statement
    if role == "target":
        wrong = rng.random() < slips(len(program.steps), slip_share)
        return Demo(role, asked.solve(statement, (), 0), fenced((slip(program, rng) if wrong else program).code))
    if role == "brute_force":
        return Demo(role, asked.brute_force(statement), fenced(program.code))
    if role == "oracle":
        return Demo(role, asked.oracle(statement, ()), fenced(program.code))
    if role == "reference":
        return Demo(role, asked.reference(statement), fenced(program.code))
    if role == "write":
        change = Mutation("", "", "", program.code)
        return Demo(role, asked.write(change), f"{stated(statement)}\n{_inputs(rng)}")
    if role == "inputs":
        return Demo(role, asked.inputs(statement, program.code), _inputs(rng))
    if role == "statement":
        return Demo(role, asked.repair_statement("", program.code, ""), stated(statement))
    if role == "quality":
        return _rated(program, rng)
    parent = replace(program, steps=program.steps[: MOST_STEPS - 1])
    used = rng.sample(list(FAMILIES), rng.choice((0, 0, 1, 2, 3)))
    child, step = harder(parent, rng, used)
    explained = f"<family>{step.family}</family><idea>{step.clause}</idea><why>a step more</why>"
    if role == "problem":
        return Demo(role, asked.problem_first(parent.statement, "", used), f"{explained}\n{stated(child.statement)}")
    return Demo(role, asked.mutate("", parent.code, "", used), f"{explained}\n{fenced(child.code)}")


def _rated(program: Program, rng: random.Random) -> Demo:
    """A statement that says all is a 4, one that lacks its beginning or its end a 2."""
    clauses = [step.clause for step in program.steps]
    whole = rng.random() < 0.7
    broken = rng.choice([["Read numbers.", *clauses], [*clauses, ENDS[program.end][0]]])
    statement = program.statement if whole else " ".join(broken)
    return Demo("quality", Compact().quality(statement), f"<score>{4 if whole else 2}</score>")


def _inputs(rng: random.Random) -> str:
    def lines(sizes: Sequence[tuple[int, int]]) -> str:
        return "".join(f"<input>{numbers(rng, *size)}</input>" for size in sizes)

    start, step, count = rng.randint(2, 9), rng.randint(2, 7), rng.randint(15, 30)
    return (
        f"<public>{lines([(4, 6)])}</public>\n<small>{lines([(4, 5), (4, 5)])}</small>\n"
        f"<medium>{lines([(6, 8)])}</medium>\n"
        f"<large>\n{fenced(f'print(*range({start}, {10 * step + start}, {step}))')}\n</large>\n"
        f"<stress>\n{fenced(f'print(*[i * {step} % 13 for i in range({count})])')}\n</stress>"
    )


def fenced(code: str) -> str:
    return f"```python\n{code}\n```"


def stated(statement: str) -> str:
    return f"<statement>{statement}</statement>"


def corpus(n: int = 500) -> dict[str, list[str]]:
    """What the tokenizer of `tiny` is made from for this domain: see `selfplay.backbones.tiny.Corpus`."""
    demos = demonstrations(seed=1, n=n, slip_share=0.0, forbidden=())
    texts = [f"user\n{d.messages[0]['content']}" for d in demos] + [f"assistant\n{d.response}" for d in demos]
    tags = ["family", "idea", "why", "statement", "public", "small", "medium", "large", "stress", "input", "score"]
    phrases = [f"<{tag}>" for tag in tags] + [f"</{tag}>" for tag in tags]
    phrases += ["</input><input>", "</family><idea>", "</idea><why>", "a step more</why>\n", "```python\n", "\n```"]
    phrases += [f"{READ}\n", "Read numbers. ", "\n<large>\n", "\n</large>\n<stress>\n", "\n</stress>", "print(*"]
    phrases += [Compact.OPENINGS[name] + "\n" for name in Compact.OPENINGS]
    for clause, line, *_ in FAMILIES.values():
        for text in (clause, line):
            phrases += [part for part in text.split("{k}") if len(part) > 1]
    phrases += [text for end in ENDS.values() for text in end]
    return {"phrases": list(dict.fromkeys(phrases)), "texts": texts}
