"""What a published benchmark is: where its records come from, how one is read, how an answer to it is scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

KINDS = ("math", "choice", "text", "code", "proof")


@dataclass(frozen=True)
class Item:
    """One question. `gold` is the answer as text for math and text, the right letter for choice; `payload` is what
    code and proof are judged by."""

    item_id: str
    question: str
    gold: str = ""
    options: tuple[str, ...] = ()
    payload: Any = None


@dataclass(frozen=True)
class Hub:
    """A data set of the hub. `files` are read as they are; without them `config` and `split` are loaded."""

    repo: str
    config: str = ""
    split: str = "test"
    files: tuple[str, ...] = ()


Record = Mapping[str, Any]


@dataclass(frozen=True)
class Benchmark:
    """`samples` answers a question are drawn at `temperature` (0: greedy); the score is their mean."""

    name: str
    kind: str
    read: Callable[[Record, int], Item | list[Item]]  # a record and its place, from 0; raises KeyError or ValueError
    hub: Hub | None = None
    files: tuple[str, ...] = ()  # further names of a local file, beside `<name>.jsonl` and the like
    samples: int = 1
    temperature: float = 0.0
    keep: Callable[[Record], bool] | None = None  # which records belong to it; all
    date: Callable[[Record], str] | None = None  # the day a record was published, for windows
    packages: tuple[str, ...] = ()  # what its programs import besides the standard library
    note: str = ""  # for people: what is not in it
