"""What every system logs of an engine step: verl's numbers by our names, timings, and the rows for people."""

from __future__ import annotations

from collections.abc import Sequence

from selfplay.engine.session import StepResult
from selfplay.runs.rollouts import Rollout

ENGINE = {  # verl's name -> ours
    "training/rollout_actor_probs_pearson_corr": "logprob_pearson",
    "training/rollout_probs_diff_max": "logprob_diff_max",
    "actor/entropy": "entropy",
    "actor/grad_norm": "grad_norm",
    "actor/pg_loss": "pg_loss",
    "actor/pg_clipfrac": "clip_fraction",
    "actor/ppo_kl": "ppo_kl",
    "actor/kl_loss": "kl_loss",
    "actor/lr": "lr",
}


def engine_metrics(result: StepResult) -> dict[str, float]:
    """The engine's numbers and timings of a step; what an update without rows does not give is left out."""
    values = {ours: result.metrics[theirs] for theirs, ours in ENGINE.items() if theirs in result.metrics}
    return values | {f"timing/{phase}": seconds for phase, seconds in result.timing_s.items()}


def readable(result: StepResult, advantages: Sequence[float]) -> list[Rollout]:
    """Rows for `rollouts/`; a record may bring `verdict`, and `detail` or `reason`."""
    return [
        Rollout(
            key=row["key"],
            role=row["role"],
            group=row["group"],
            prompt=row["prompt"],
            response=row["response"],
            verdict=row.get("verdict", ""),
            reward=row["reward"],
            advantage=advantage,
            detail=row.get("detail") or row.get("reason") or "",
        )
        for row, advantage in zip(result.rows, advantages, strict=True)
    ]
