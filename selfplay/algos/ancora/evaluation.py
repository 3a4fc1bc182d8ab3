"""Held-out pass@1: attempts sampled as in training, judged by the same prover."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from selfplay.algos.ancora.episode import judge
from selfplay.algos.ancora.prompts import solver_messages
from selfplay.curriculum.roots import Root
from selfplay.engine.session import Session
from selfplay.objectives.intervals import wilson
from selfplay.runs.summary import EvalScore
from selfplay.sandbox.base import Prover


@dataclass(frozen=True)
class Evaluation:
    """The score, and each specification's record for `rollouts/`."""

    score: EvalScore
    records: list[dict[str, Any]]


def evaluate(
    session: Session,
    prover: Prover,
    roots: Sequence[Root],
    *,
    samples: int,
    max_tokens: int,
    temperature: float,
    top_p: float,
    style: str,
    language: str,
    beat: Callable[[int, int], None],
) -> Evaluation:
    """`samples` attempts at each of `roots`.

    The request seeds do not depend on the step, so two evaluations differ by the model alone. The interval is Wilson's
    over all attempts: it speaks of this suite's pass@1, not of specifications in general.
    """
    prompts = [session.render(solver_messages(r.spec, style=style, language=language)) for r in roots]
    outputs = session.generate(
        [prompt for prompt in prompts for _ in range(samples)],
        max_tokens=max_tokens,
        seed_key=("evaluation",),
        temperature=temperature,
        top_p=top_p,
    )
    owners = [root for root in roots for _ in range(samples)]
    verdicts = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        for done, (answer, verdict) in enumerate(pool.map(lambda o, s: judge(o.spec, s, prover), owners, outputs), 1):
            verdicts.append((answer, verdict))
            if done % 50 == 0:
                beat(done, len(outputs))
    records = []
    for i, root in enumerate(roots):
        mine = verdicts[i * samples : (i + 1) * samples]
        solved = [answer for answer, verdict in mine if verdict.verified]
        counts: dict[str, int] = {}
        for _, verdict in mine:
            counts[str(verdict.verdict)] = counts.get(str(verdict.verdict), 0) + 1
        records.append(
            {
                "id": root.name,
                "spec": root.spec,
                "family": root.family,
                "grade": root.grade,
                "pass_at_1": len(solved) / samples,
                "verdicts": counts,
                "first_answer": solved[0] if solved else None,
            }
        )
    solved_total = sum(verdict.verified for _, verdict in verdicts)
    interval = wilson(solved_total, len(verdicts))
    return Evaluation(EvalScore(interval.mean, len(verdicts), (interval.low, interval.high)), records)
