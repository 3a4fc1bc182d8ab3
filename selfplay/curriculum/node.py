"""The nouns of the curriculum: a node of the DAG, a selected seed, a candidate and what became of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum


def node_id(text: str) -> str:
    """Stable name of a specification: 16 hex digits of the SHA-256 of its text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(slots=True)
class Node:
    """What is fixed about a node; its changing statistics live in `NodeStatistics`, in the same row."""

    id: str
    text: str  # the specification
    answer: str | None  # first verified answer; a root may have none
    parents: tuple[str, ...]  # () for roots; (seed,) or (seed, second parent) otherwise
    family: str  # label inherited from the seed's root, for people and for reports
    depth: int  # 0 for roots, else one more than the first parent's
    born: int  # step of admission

    @property
    def is_root(self) -> bool:
        return not self.parents


class Direction(StrEnum):
    """Whether the Proposer is asked for a harder or an easier variation of the seed."""

    UP = "up"
    DOWN = "down"


class SeedKind(StrEnum):
    """How a seed was selected. A descent may stay at the root by which it entered: its kind is then DESCENDED."""

    ROOT = "root"  # from the root quota
    DESCENDED = "descended"


@dataclass(frozen=True)
class Seed:
    """One selected seed: a Proposer prompt for N proposals."""

    node_id: str
    text: str
    direction: Direction
    path: tuple[str, ...]  # ids from the root to the seed, both included
    second_parents: tuple[str | None, ...]  # [N]: the second parent of each proposal, None without crossover
    kind: SeedKind


@dataclass(frozen=True)
class Candidate:
    """A proposed specification that passed the format, stub and semantics gates and was attempted K times."""

    text: str
    parents: tuple[str, ...]  # node ids: the seed, then the second parent if there is one
    answer: str | None  # first verified answer, None when no attempt verified
    pass_rate: float  # verified share of its K attempts, in [0, 1]


class Outcome(StrEnum):
    """What became of a candidate."""

    ADMITTED = "admitted"  # a new node
    ABSORBED = "absorbed"  # merged into a parent that it resembles
    REJECTED = "rejected"


class Reason(StrEnum):
    """Why a candidate did not become a node."""

    UNSOLVED = "unsolved"  # no verified answer (solved-only admission, lemma G.1)
    RENAME_ONLY = "rename_only"  # a parent with other names
    STRUCTURAL_COPY = "structural_copy"  # a parent up to names and literals
    POOL_DUPLICATE = "pool_duplicate"  # too close to a member of the pool
    SIBLING_DUPLICATE = "sibling_duplicate"  # too close to a sibling of the same step
    NEAR_PARENT = "near_parent"  # close enough to a parent to be absorbed


@dataclass(frozen=True)
class Admission:
    """The verdict on a candidate. `node_id` is the new node when admitted, the parent when absorbed, else None."""

    outcome: Outcome
    reason: Reason | None
    node_id: str | None
    similarity: float  # the similarity that decided, or the largest to the pool when admitted
    nearest: str | None  # the node to which `similarity` was measured
