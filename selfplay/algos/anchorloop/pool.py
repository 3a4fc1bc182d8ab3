"""The task pool of an iteration, and its admission manifest: what was sampled, what was kept, and why not the rest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from selfplay.curriculum.contamination import Contamination, normal

CONTAMINATED = "contaminated"


@dataclass(frozen=True)
class Candidate:
    """A sampled task: its question and why it is none ("" where it is one)."""

    question: str
    reason: str


def admit(
    candidates: Sequence[Candidate], contamination: Contamination, drop_contaminated: bool
) -> tuple[list[str], dict[str, Any]]:
    """The questions to keep, in order, and the manifest.

    Duplicates are counted and kept, as the paper keeps every task of valid format; contaminated ones are dropped
    unless the settings say otherwise.
    """
    kept, reasons, kinds, seen, duplicates = [], Counter[str](), Counter[str](), set[str](), 0
    for candidate in candidates:
        if candidate.reason:
            reasons[candidate.reason] += 1
            continue
        words = " ".join(normal(candidate.question))
        duplicates += words in seen
        seen.add(words)
        kind = contamination.of(candidate.question)
        kinds[kind] += bool(kind)
        if kind and drop_contaminated:
            reasons[CONTAMINATED] += 1
            continue
        kept.append(candidate.question)
    manifest = {
        "sampled": len(candidates),
        "format_valid": sum(not candidate.reason for candidate in candidates),
        "kept": len(kept),
        "rejected": dict(reasons),
        "duplicates": duplicates,
        "contaminated": {kind: count for kind, count in kinds.items() if kind},
    }
    return kept, manifest


def leaks(prompts: Sequence[str], questions: Sequence[str], render: Any) -> int:
    """Prompts that hold anything besides their question: the canary that the Answer field went nowhere.

    Each prompt must be, to the letter, what the question alone gives.
    """
    fields = re.compile(r"</?answer>|</?task>")
    return sum(
        prompt != render(question) or bool(fields.search(question))
        for prompt, question in zip(prompts, questions, strict=True)
    )


def in_batches(questions: Sequence[str], size: int, limit: int) -> list[list[str]]:
    """At most `limit` batches of `size`; a rest that fills no batch is left out, unless it is all there is."""
    batches = [list(questions[i : i + size]) for i in range(0, len(questions), size)]
    return [batch for batch in batches if len(batch) == size or len(batches) == 1][:limit]
