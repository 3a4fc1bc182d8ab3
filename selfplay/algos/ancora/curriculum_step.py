"""Between the curriculum and the engine: seeds become tasks, and a step's rows become statistics and admissions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from selfplay.algos.ancora.advantages import PROPOSER, SOLVER
from selfplay.algos.ancora.episode import EPISODE
from selfplay.curriculum.curriculum import Curriculum
from selfplay.curriculum.node import Candidate, Outcome, Seed
from selfplay.engine.episode import Task

OUTCOMES = ("admitted", "absorbed", "rejected")


def task_of(seed: Seed, curriculum: Curriculum) -> Task:
    """One prompt for N sessions; the second parents differ from session to session."""
    seconds = [
        None if parent is None else {"id": parent, "text": curriculum.node(parent).text}
        for parent in seed.second_parents
    ]
    payload = {"seed": seed.text, "seed_id": seed.node_id, "direction": str(seed.direction), "seconds": seconds}
    return Task(payload, sessions=len(seconds), episode=EPISODE)


def take_in(curriculum: Curriculum, seeds: Sequence[Seed], rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Record the rewards, admit what was solved and is new, end the step; returns counts by outcome.

    `rows` are a step's rows in order; a proposer row's key is `<uid>_<session>_<place>`, its uid ends in `x<seed>`.
    """
    proposals: dict[int, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    answers: dict[str, str] = {}  # "<uid>/<session>" -> first verified answer
    for row in rows:
        uid, session, _ = str(row["key"]).rsplit("_", 2)
        if row["role"] == PROPOSER:
            proposals[int(uid.rsplit("x", 1)[1])][int(session)] = row
        elif row["role"] == SOLVER and row["reward"] == 1.0:
            answers.setdefault(str(row["group"]), str(row["answer"]))
    outcomes: Counter[str] = Counter()
    for index, seed in enumerate(seeds):
        sessions = [proposals[index][s] for s in range(len(seed.second_parents))]
        rates = [row["solved"] / row["attempts"] for row in sessions if row["attempts"]]
        curriculum.record(as_used(seed, sessions), [row["reward"] for row in sessions], rates)
        for number, row in enumerate(sessions):
            answer = answers.get(f"{row['group']}/{number}")
            if row["attempts"] and answer is not None:
                rate = row["solved"] / row["attempts"]
                admission = curriculum.admit(Candidate(row["spec"], tuple(row["parents"]), answer, rate))
                outcomes[str(admission.outcome)] += 1
                if admission.outcome is Outcome.REJECTED:
                    outcomes[f"rejected/{admission.reason}"] += 1
    outcomes["pruned"] = len(curriculum.step_end())
    return {f"pool/{name}": float(outcomes.get(name, 0)) for name in {*OUTCOMES, *outcomes}}


def as_used(seed: Seed, sessions: Sequence[Mapping[str, Any]]) -> Seed:
    """The seed with the second parents that its sessions did use: one that did not fit the prompt earns nothing."""
    return replace(seed, second_parents=tuple(next(iter(row["parents"][1:]), None) for row in sessions))
