"""What the search remembers: each seed its lineage, the run its mutation families (BenchEvolver, section 3.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from selfplay.algos.benchevolver.candidate import Attempt

SHOWN = 6  # of the last attempts, families and errors, in a prompt


@dataclass
class LocalMemory:
    """Of one seed: every attempt in order. The lineage goes on from the last accepted task."""

    seed_id: str
    seed_accuracy: float
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def accepted(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.accepted]

    def summary(self) -> str:
        """For the proposer: difficulty so far, what was accepted, what failed and why, how the targets err."""
        lines = [f"Share of attempts at the seed that are right: {self.seed_accuracy:.2f}"]
        for attempt in self.attempts[-SHOWN:]:
            what = attempt.idea or attempt.family or "a mutation"
            if attempt.accepted:
                lines.append(f"Accepted: {what} (share right: {attempt.accuracy:.2f})")
            else:
                measured = f", share right: {attempt.accuracy:.2f}" if attempt.accuracy is not None else ""
                lines.append(f"Rejected: {what} ({attempt.reason}{measured})")
        errors = Counter(error for attempt in self.attempts for error in attempt.errors)
        lines += [f"Seen in wrong attempts: {error}" for error, _ in errors.most_common(3)]
        return "\n".join(lines)


class GlobalMemory:
    """Across seeds: which families were tried and accepted, and where."""

    def __init__(self) -> None:
        self._accepted: dict[str, set[str]] = {}
        self._tried: Counter[str] = Counter()

    def add(self, attempt: Attempt) -> None:
        if not attempt.family:
            return
        family = normal(attempt.family)
        self._tried[family] += 1
        if attempt.accepted:
            self._accepted.setdefault(family, set()).add(attempt.seed_id)

    def known_elsewhere(self, family: str, seed_id: str) -> bool:
        """Whether another seed's lineage has had this family accepted."""
        return bool(self._accepted.get(normal(family), set()) - {seed_id})

    def summary(self) -> str:
        """For the proposer: families that are used up, most frequent first."""
        used = [f"{family} ({count}x)" for family, count in self._tried.most_common(SHOWN)]
        return "Mutation families of the whole run so far: " + (", ".join(used) if used else "none")

    def counts(self) -> dict[str, dict[str, int]]:
        """family -> tried, and seeds that had it accepted."""
        return {
            family: {"tried": count, "accepted": len(self._accepted.get(family, ()))}
            for family, count in sorted(self._tried.items())
        }


def normal(family: str) -> str:
    """One spelling of a family's name."""
    return " ".join(family.lower().replace("-", " ").replace("_", " ").split())


def rebuild(memories: Sequence[LocalMemory]) -> GlobalMemory:
    """The global memory that follows from local ones, taken step by step across seeds."""
    memory = GlobalMemory()
    attempts = [attempt for local in memories for attempt in local.attempts]
    for attempt in sorted(attempts, key=lambda a: (a.step, a.seed_id)):
        memory.add(attempt)
    return memory
