"""Pseudo-labels by majority (AnchorLoop section 3; group resolution).

The answers of a group are classes: equal answers are equal values, an invalid or missing one is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Resolution:
    """A group's pseudo-label ỹ and self-consistency p̂; None and 0 where the group is unresolved."""

    label: Hashable | None
    share: float

    @property
    def resolved(self) -> bool:
        return self.label is not None


def resolve(answers: Sequence[Hashable | None]) -> Resolution:
    """The unique most frequent valid answer of a group, and its votes over the group's fixed size G.

    Invalid answers do not vote and count in G. A tie at the top, or no valid answer, leaves the group unresolved.

    Raises:
        ValueError: the group is empty.
    """
    if not answers:
        raise ValueError("a group has one rollout at least")
    top = Counter(answer for answer in answers if answer is not None).most_common(2)
    if not top or (len(top) == 2 and top[0][1] == top[1][1]):
        return Resolution(None, 0.0)
    return Resolution(top[0][0], top[0][1] / len(answers))


def matches(answers: Sequence[Hashable | None], label: Hashable | None) -> list[float]:
    """1 for every answer that is valid and equals `label`, else 0; all 0 for an unresolved group's label (None)."""
    return [float(answer is not None and answer == label) for answer in answers]
