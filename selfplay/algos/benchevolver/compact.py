"""The wording for models that are warmed up on it: a word and what it is about, a few dozen tokens in all.

Counterexamples are left out: a repair is another try. What was tried before is said by the names of its families.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from selfplay.algos.benchevolver.candidate import Mutation
from selfplay.algos.benchevolver.prompts import Full, Wording
from selfplay.engine.episode import Message

STYLE = "compact"


class Compact:
    """See `prompts.Wording`."""

    OPENINGS: ClassVar[dict[str, str]] = {
        "mutate": "harder",
        "problem": "other",
        "reference": "program",
        "write": "describe",
        "inputs": "inputs",
        "brute_force": "brute",
        "oracle": "oracle",
        "target": "solve",
        "statement": "restate",
        "quality": "rate",
    }

    def _ask(self, what: str, *parts: str) -> list[Message]:
        return [{"role": "user", "content": "\n".join([self.OPENINGS[what], *parts])}]

    def mutate(self, statement: str, reference: str, memory: str, used: Sequence[str]) -> list[Message]:
        return self._ask("mutate", reference, *_not(used))

    def problem_first(self, statement: str, memory: str, used: Sequence[str]) -> list[Message]:
        return self._ask("problem", statement, *_not(used))

    def reference(self, statement: str) -> list[Message]:
        return self._ask("reference", statement)

    def write(self, mutation: Mutation) -> list[Message]:
        return self._ask("write", mutation.reference)

    def inputs(self, statement: str, reference: str) -> list[Message]:
        return self._ask("inputs", reference)

    def brute_force(self, statement: str) -> list[Message]:
        return self._ask("brute_force", statement)

    def oracle(self, statement: str, inputs: Sequence[str]) -> list[Message]:
        return self._ask("oracle", statement)

    def solve(self, statement: str, examples: Sequence[tuple[str, str]], seconds: float) -> list[Message]:
        return self._ask("target", statement)

    def mutate_function(self, statement: str, reference: str, memory: str, used: Sequence[str]) -> list[Message]:
        return self.mutate(statement, reference, memory, used)

    def write_function(self, mutation: Mutation, header: str) -> list[Message]:
        return self.write(mutation)

    def solve_function(self, statement: str, header: str, seconds: float) -> list[Message]:
        return self._ask("target", statement, header)

    def repair_reference(self, statement: str, program: str, counterexample: str) -> list[Message]:
        return self.reference(statement)

    def repair_brute_force(self, statement: str, program: str, counterexample: str) -> list[Message]:
        return self.brute_force(statement)

    def repair_statement(self, statement: str, reference: str, counterexample: str) -> list[Message]:
        return self._ask("statement", reference)

    def quality(self, statement: str) -> list[Message]:
        return self._ask("quality", statement)


def wording_of(style: str) -> Wording:
    """`compact`, or that for instruction models."""
    return Compact() if style == STYLE else Full()


def _not(used: Sequence[str]) -> list[str]:
    """The last families that were tried: as many as the demonstrations show at most."""
    return [f"not {', '.join(used[-3:])}"] if used else []
