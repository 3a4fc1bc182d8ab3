"""ANCORA's figures (section 5 of the paper): validity, rewards, the pool, the balance of the branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from selfplay.reporting.figures import Figure, bars, by_arm, lines, nested, present, stacked, terms
from selfplay.reporting.runs import Run

ROLES = ("proposer", "solver")


def figures(groups: Mapping[str, Sequence[Run]]) -> list[Figure]:
    """Of one run or of several; what is drawn of one run alone is drawn of the first."""
    first = next(iter(groups.values()))[0]
    return present(
        lines(
            "learning",
            "Learning",
            "Share of proposals that are valid, and pass rate of the attempts at those that were accepted.",
            {"valid proposals": by_arm(groups, "q_valid"), "pass rate": by_arm(groups, "pass_rate")},
            limits={"valid proposals": (0, 1), "pass rate": (0, 1)},
        ),
        lines(
            "rewards",
            "Rewards",
            "Mean reward of a step, by role.",
            {"proposer": by_arm(groups, "reward/proposer"), "solver": by_arm(groups, "reward/solver")},
        ),
        stacked(
            "rejections",
            f"Why proposals were rejected ({first.label})",
            "Rejected proposals of a step by stage and reason.",
            nested(first.metrics, "rejections"),
            "proposals",
        ),
        stacked(
            "verdicts",
            f"What the verifier said of attempts ({first.label})",
            "Attempts of a step by verdict.",
            nested(first.metrics, "verdicts"),
            "attempts",
        ),
        lines(
            "pool",
            "The pool",
            "Specifications in the curriculum, and the depth of the deepest: variations between it and a root.",
            {"size": by_arm(groups, "pool/size"), "depth": by_arm(groups, "pool/depth")},
        ),
        _depths(first),
        lines(
            "selection",
            "What was selected",
            "Share of seeds that are roots, share asked for a harder one, and how like its seed an accepted one is.",
            {
                "roots": by_arm(groups, "seeds/roots"),
                "harder": by_arm(groups, "seeds/up"),
                "similarity": by_arm(groups, "structural_similarity"),
            },
            limits={"roots": (0, 1), "harder": (0, 1), "similarity": (0, 1)},
        ),
        lines(
            "advantages",
            "Advantages",
            "Standard deviation of the advantages, by role.",
            terms(groups, "spread", {role: f"advantage/{role}_std" for role in ROLES}),
        ),
        lines(
            "signal",
            "Rows with a signal",
            "Share of the rows whose advantage is not 0, by role.",
            terms(groups, "not 0", {role: f"advantage/{role}_nonzero" for role in ROLES}),
        ),
        lines(
            "balance",
            "Balance of the branches",
            "Factor by which each branch's loss was scaled.",
            terms(groups, "scale", {"proposer": "balance/scale_q", "solver": "balance/scale_s"}),
        ),
        lines(
            "entropies",
            "Entropy by role",
            "Of the policy, in nats a token.",
            terms(groups, "entropy", {role: f"entropy/{role}" for role in ROLES}),
        ),
        _warmup(first),
    )


def _depths(run: Run) -> Figure | None:
    """The pool's depths in the end."""
    table = nested(run.metrics, "pool/depths")
    if table.empty:
        return None
    last = table.iloc[-1].dropna()
    rows = [(depth, "specifications", float(last[depth]), None) for depth in sorted(last.index, key=int)]
    caption = "Specifications by the number of variations between them and their root, in the end; 0 are the roots."
    return bars("depths", f"Depths of the pool ({run.label})", caption, rows, "specifications")


def _warmup(run: Run) -> Figure | None:
    """The rounds of the warm-up."""
    rows = []
    for row in run.summary.get("warmup") or []:
        name = f"round {row.get('round')}"
        rows.append((name, "valid proposals", 100 * float(row["q_valid"]), None))
        rows += [(name, f"pass@1 {suite}", 100 * float(rate), None) for suite, rate in row["pass_at_1"].items()]
    caption = "After each round: the share of proposals that are valid, and pass@1 of every evaluation set."
    return bars("warmup", f"The warm-up's rounds ({run.label})", caption, rows, "%")
