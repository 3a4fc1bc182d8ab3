"""A toy system for engine tests: the policy proposes a few tokens, then "solves" them; digits are rewarded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from selfplay.engine.episode import Row, Sampler


class ToyEpisode:
    """A proposal whose first character is not a digit is rejected and gets no attempts: rows vary from step to step."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.attempts = int(settings["attempts"])
        self.fail = bool(settings.get("fail", False))

    async def run(self, task: Mapping[str, Any], session: int, uid: str, sampler: Sampler) -> list[Row]:
        if self.fail and session == 1:
            raise ValueError("the toy verifier exploded")
        prompt = sampler.render([{"role": "user", "content": str(task["text"])}])
        proposal = await sampler.sample(prompt, max_tokens=6, key=("proposer",))
        accepted = proposal.text[:1].isprintable()
        rows = []
        if accepted:
            solver_prompt = prompt + proposal.token_ids + sampler.encode("?")
            attempts = await asyncio.gather(
                *[sampler.sample(solver_prompt, max_tokens=4 + j, key=("solver", j)) for j in range(self.attempts)]
            )
            for j, attempt in enumerate(attempts):
                reward = float(any(c.isdigit() for c in attempt.text))
                rows.append(Row.of("solver", f"{uid}/{session}", solver_prompt, attempt, reward, {"attempt": j}))
        mean = sum(row.reward for row in rows) / max(1, len(rows))
        record = {"accepted": accepted, "text": proposal.text}
        out = [Row.of("proposer", uid, prompt, proposal, mean, record), *rows]
        for row in out:
            row.clip_high, row.trained = task.get("clip_high"), task.get("trained", True)
        return out


def build(settings: Mapping[str, Any]) -> ToyEpisode:
    return ToyEpisode(settings)
