"""The paper's tables of one round's search, as Markdown: yield, validity, the drop of every model, spread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from selfplay.algos.benchevolver.candidate import Reason
from selfplay.algos.benchevolver.evolve import Lineage
from selfplay.algos.benchevolver.memory import normal

INVALID = (  # reasons that say a candidate is no sound task; the other rejections are of sound ones
    Reason.NO_CALL,
    Reason.CUT_OFF,
    Reason.NO_CODE,
    Reason.NO_STATEMENT,
    Reason.NO_TESTS,
    Reason.UNCHANGED,
    Reason.REFERENCE_FAILS,
    Reason.UNSTABLE,
    Reason.INCONSISTENT,
    Reason.UNFAITHFUL,
)


def report(lineages: Sequence[Lineage], manifest: Mapping[str, Any], again: Mapping[str, float] | None) -> str:
    """The whole page. `again`: accuracies of accepted tasks in fresh attempts, if there were any."""
    flattered = ""
    if again:
        flattered = (
            f"Acceptance prefers low draws. In fresh attempts: seeds {100 * again['fresh_seeds']:.1f}%, accepted tasks"
            f" {100 * again['fresh']:.1f}% (when accepted: {100 * again['accepted']:.1f}%)."
        )
    parts = [
        f"# Search, {manifest['version']}",
        "## Yield by difficulty of the seed",
        table(("difficulty", "seeds", "saturated", "evolved", "accepted", "steps"), yields(lineages)),
        "## Validity",
        table(("ended as", "steps", "share, %"), validity(lineages)),
        "## Pass rate of every model, %",
        table(("model", "seeds", "evolved", "drop"), drops(lineages)),
        flattered,
        "## Families",
        table(("family", "steps", "accepted", "lineages"), families(lineages)),
        f"Entropy of the accepted ones: {manifest['family_entropy_bits']:.2f} bits;"
        f" families a lineage: {per_lineage(lineages):.2f}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def yields(lineages: Sequence[Lineage]) -> list[tuple[Any, ...]]:
    """Rows by the seeds' own difficulty."""
    rows = []
    for name in sorted({lineage.seed.difficulty for lineage in lineages}):
        mine = [lineage for lineage in lineages if lineage.seed.difficulty == name]
        tried = [lineage for lineage in mine if lineage.memory.attempts]
        accepted = sum(len(lineage.evolved) for lineage in mine)
        steps = sum(len(lineage.memory.attempts) for lineage in mine)
        rows.append((name or "-", len(mine), len(tried), sum(bool(one.evolved) for one in mine), accepted, steps))
    return rows


def validity(lineages: Sequence[Lineage]) -> list[tuple[Any, ...]]:
    """Rows by how steps ended: accepted, sound but not wanted, not sound; then every reason."""
    attempts = [attempt for lineage in lineages for attempt in lineage.memory.attempts]
    total = max(1, len(attempts))
    accepted = sum(attempt.accepted for attempt in attempts)
    invalid = sum(attempt.reason in INVALID for attempt in attempts)
    counts: list[tuple[str, int]] = [
        ("accepted", accepted),
        ("sound, rejected", len(attempts) - accepted - invalid),
        ("not sound", invalid),
    ]
    reasons = Counter(str(attempt.reason) for attempt in attempts if attempt.reason)
    counts += [(f"- {reason}", count) for reason, count in reasons.most_common()]
    return [(name, count, f"{100 * count / total:.1f}") for name, count in counts]


def drops(lineages: Sequence[Lineage]) -> list[tuple[Any, ...]]:
    """Rows by target: accuracy on the seeds of accepted tasks and on the tasks, means over accepted tasks."""
    pairs = [(lineage.measured, one) for lineage in lineages for one in lineage.evolved if lineage.measured]
    rows = []
    for role in pairs[0][1].by_model if pairs else ():
        seeds = sum(measured.by_model[role] for measured, _ in pairs) / len(pairs)
        tasks = sum(one.by_model[role] for _, one in pairs) / len(pairs)
        rows.append((role, f"{100 * seeds:.1f}", f"{100 * tasks:.1f}", f"{100 * (seeds - tasks):.1f}"))
    return rows


def families(lineages: Sequence[Lineage]) -> list[tuple[Any, ...]]:
    """Rows by mutation family, most accepted first."""
    tried: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    where: dict[str, set[str]] = {}
    for lineage in lineages:
        for attempt in lineage.memory.attempts:
            if name := normal(attempt.family):
                tried[name] += 1
                if attempt.accepted:
                    accepted[name] += 1
                    where.setdefault(name, set()).add(lineage.seed.task_id)
    order = sorted(tried, key=lambda name: (-accepted[name], -tried[name], name))
    return [(name, tried[name], accepted[name], len(where.get(name, ()))) for name in order]


def per_lineage(lineages: Sequence[Lineage]) -> float:
    """Different accepted families a lineage, over lineages with an accepted task."""
    counts = [len({normal(one.mutation.family) for one in lineage.evolved}) for lineage in lineages if lineage.evolved]
    return sum(counts) / len(counts) if counts else 0.0


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "/") for cell in line) + " |" for line in lines)
