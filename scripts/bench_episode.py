"""The trivial task of `scripts/bench.py`, in the forms that our session and bare verl want it. Imports nothing heavy.

The prompt is a short chat message, the answer a fixed number of tokens (the end of sequence is ignored), the reward
the share of letters in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev
from typing import Any

from selfplay.engine.episode import Row, Sampler


def question(number: int) -> str:
    return f"{number} + {number % 7} = ?"


def reward_of(text: str) -> float:
    return sum(character.isalpha() for character in text) / max(1, len(text))


class FixedLength:
    """One sample of `tokens` tokens a session."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens

    async def run(self, task: Mapping[str, Any], session: int, uid: str, sampler: Sampler) -> list[Row]:
        sampler.defaults["ignore_eos"] = True  # type: ignore[attr-defined]  # bare verl has a setting for it
        prompt = sampler.render([{"role": "user", "content": task["text"]}])
        sample = await sampler.sample(prompt, max_tokens=self.tokens, key=("answer",))
        return [Row.of("solver", uid, prompt, sample, reward_of(sample.text), {})]


def build(settings: Mapping[str, Any]) -> FixedLength:
    return FixedLength(int(settings["tokens"]))


def group_relative(rows: Sequence[Any]) -> list[float]:
    """GRPO's advantage: the reward less its group's mean, over the group's standard deviation."""
    groups: dict[str, list[float]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row.reward)
    return [(row.reward - fmean(groups[row.group])) / (pstdev(groups[row.group]) + 1e-6) for row in rows]


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_: Any) -> float:
    """verl's form of the reward."""
    return reward_of(solution_str)
