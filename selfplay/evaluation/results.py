"""From samples to scores: each benchmark's mean over its questions, with an interval; each suite's mean over those."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from selfplay.objectives.intervals import bootstrap_mean
from selfplay.objectives.pass_at_k import mean_pass_at_k

KS = (1, 5, 10)
Record = Mapping[str, Any]


def by_item(records: Sequence[Record]) -> dict[str, list[bool]]:
    """Every question's samples, right or wrong, in the order of the draws."""
    out: dict[str, dict[int, bool]] = {}
    for record in records:
        out.setdefault(record["item"], {})[record["sample"]] = bool(record["correct"])
    return {item: [found[place] for place in sorted(found)] for item, found in out.items()}


def benchmark_result(records: Sequence[Record], samples: int, items: int) -> dict[str, Any]:
    """Accuracy is the mean over questions of the share of right samples; the interval is the bootstrap's over them.

    `complete` says whether all samples of all questions are there.
    """
    found = by_item(records)
    rates = [sum(one) / len(one) for one in found.values()]
    interval = bootstrap_mean(rates)
    result: dict[str, Any] = {
        "accuracy": interval.mean,
        "interval": [interval.low, interval.high],
        "items": len(found),
        "samples": samples,
        "complete": len(records) == items * samples,
        "finished": _share(records, "finished"),
        "no_answer": sum(record["extracted"] is None for record in records) / len(records),
        "tokens": sum(record["tokens"] for record in records) / len(records),
        "tool_calls": sum(record["calls"] for record in records) / len(records),
        "verdicts": dict(Counter(str(record["verdict"]) for record in records).most_common()),
    }
    least = min(map(len, found.values()))
    if samples > 1:
        n, c = [len(one) for one in found.values()], [sum(one) for one in found.values()]
        result["pass_at_k"] = {str(k): mean_pass_at_k(n, c, k) for k in KS if k <= least}
    return result


def _share(records: Sequence[Record], key: str) -> float:
    return sum(bool(record[key]) for record in records) / len(records)


def suite_results(results: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, str]) -> dict[str, Any]:
    """Unweighted means over a suite's benchmarks; `missing` are those that were wanted and are not there."""
    out: dict[str, Any] = {}
    for suite in dict.fromkeys(wanted.values()):
        names = [name for name, owner in wanted.items() if owner == suite]
        there = [results[name]["accuracy"] for name in names if name in results]
        missing = [name for name in names if name not in results]
        out[suite] = {"average": sum(there) / len(there) if there else None, "of": len(there), "missing": missing}
    return out


def table(results: Mapping[str, Mapping[str, Any]], suites: Mapping[str, Mapping[str, Any]]) -> Table:
    """What a person reads in the end."""
    out = Table(box=None, pad_edge=False)
    out.add_column("benchmark", no_wrap=True)
    for name in ("accuracy, %", "interval", "questions", "samples", "finished, %", "no answer, %", "pass@k, %"):
        out.add_column(name, justify="right")
    for name, one in results.items():
        low, high = one["interval"]
        passed = "  ".join(f"{k}: {100 * value:.1f}" for k, value in one.get("pass_at_k", {}).items())
        out.add_row(
            name + ("" if one["complete"] else " (incomplete)"),
            f"{100 * one['accuracy']:.1f}",
            f"[{100 * low:.1f}, {100 * high:.1f}]",
            str(one["items"]),
            str(one["samples"]),
            f"{100 * one['finished']:.1f}",
            f"{100 * one['no_answer']:.1f}",
            passed or "-",
        )
    for name, mean in suites.items():
        if mean["average"] is not None and mean["of"] + len(mean["missing"]) > 1:
            part = f" ({mean['of']} of {mean['of'] + len(mean['missing'])})" if mean["missing"] else ""
            out.add_row(f"[bold]{name}, mean{part}[/]", f"[bold]{100 * mean['average']:.1f}[/]")
    return out
