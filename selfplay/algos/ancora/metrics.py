"""One step's numbers, by the names of the paper's figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from selfplay.algos.ancora.advantages import PROPOSER, SOLVER, Advantages
from selfplay.algos.step_metrics import engine_metrics
from selfplay.curriculum.curriculum import Curriculum
from selfplay.curriculum.node import Seed, SeedKind
from selfplay.engine.session import StepResult


def step_metrics(
    result: StepResult, advantages: Advantages, curriculum: Curriculum, seeds: Sequence[Seed]
) -> dict[str, Any]:
    """Rewards, validity, balance, pool, engine and timings of one step."""
    by_role = {role: [row for row in result.rows if row["role"] == role] for role in (PROPOSER, SOLVER)}
    proposals, attempts = by_role[PROPOSER], by_role[SOLVER]
    accepted = [row for row in proposals if row["verdict"] == "accepted"]
    depths, texts = curriculum.depth_histogram(), {seed.node_id: seed.text for seed in seeds}
    values: dict[str, Any] = {
        "rows": len(result.rows),
        "tokens": sum(row["tokens"] for row in result.rows),
        "attempts": len(attempts),
        "reward/proposer": _mean(row["reward"] for row in proposals),
        "reward/solver": _mean(row["reward"] for row in attempts),
        "q_valid": len(accepted) / len(proposals),
        "pass_rate": _mean(row["solved"] / row["attempts"] for row in accepted),
        "verdicts": dict(Counter(row["verdict"] for row in attempts)),
        "rejections": dict(Counter(f"{row['stage']}/{row['reason']}" for row in proposals if row not in accepted)),
        "seeds/roots": sum(seed.kind is SeedKind.ROOT for seed in seeds) / len(seeds),
        "seeds/up": sum(str(seed.direction) == "up" for seed in seeds) / len(seeds),
        "pool/size": len(curriculum),
        "pool/depth": max(depths),
        "pool/depths": {str(depth): count for depth, count in depths.items()},
        "pool/hash": curriculum.pool_hash(),
        "ability": curriculum.ability,
        "structural_similarity": _mean(
            curriculum.gate.structural_similarity(row["spec"], texts[row["parents"][0]]) for row in accepted
        ),
    }
    for role, rows in by_role.items():
        values[f"entropy/{role}"] = _entropy(rows)
    values |= _advantage_metrics(result.rows, advantages)
    values |= engine_metrics(result)
    return values | {"tokens_per_s": values["tokens"] / result.timing_s["step"]}


def _advantage_metrics(rows: Sequence[Mapping[str, Any]], advantages: Advantages) -> dict[str, float]:
    weights = advantages.weights
    assert weights is not None
    values = {
        "balance/scale_q": weights.scale_q,
        "balance/scale_s": weights.scale_s,
        "balance/w_q": weights.w_q,
        "balance/w_s": weights.w_s,
        "balance/t_q": weights.t_q,
        "balance/t_s": weights.t_s,
    }
    for role in (PROPOSER, SOLVER):
        of = np.array([a for row, a in zip(rows, advantages.values, strict=True) if row["role"] == role])
        values[f"advantage/{role}_std"] = float(of.std()) if len(of) else 0.0
        values[f"advantage/{role}_nonzero"] = float((of != 0).mean()) if len(of) else 0.0
    return values


def _entropy(rows: Sequence[Mapping[str, Any]]) -> float:
    """Mean over the branch's tokens, in nats; 0 for a branch without any."""
    tokens = sum(row["tokens"] for row in rows)
    return sum(row["entropy"] * row["tokens"] for row in rows) / tokens if tokens else 0.0


def _mean(values: Any) -> float:
    """The mean, 0 for none: a step without accepted proposals has no pass rate."""
    seen = list(values)
    return float(np.mean(seen)) if seen else 0.0
