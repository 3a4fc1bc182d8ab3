"""A prover without logic, for the tests of what wraps provers."""

from __future__ import annotations

from selfplay.sandbox.base import Judgement, Verdict


class Counting:
    """A prover that counts its questions; an answer that says "broken" makes it fail."""

    name = "counting"

    def __init__(self) -> None:
        self.asked = 0

    def check_spec(self, spec: str) -> Judgement:
        self.asked += 1
        return Judgement(Verdict.VERIFIED)

    def verify(self, spec: str, answer: str) -> Judgement:
        self.asked += 1
        if "broken" in answer:
            return Judgement(Verdict.ERROR, "it broke")
        return Judgement(Verdict.REFUTED, "no", {"x": answer})
