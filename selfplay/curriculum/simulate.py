"""Self-play without a model: a simulated Proposer and Solver that drive the real curriculum.

It serves to study selection and admission in seconds. A specification has one latent number, its difficulty d. What is
assumed, after sections 4.4, B and D.5 of ANCORA:

- Solver: an attempt succeeds with probability sigma((skill - d) / slope). Skill grows by what groups of attempts with
  mixed outcomes teach, p (1 - p); groups all solved or all failed teach nothing.
- Proposer, reward: the Bernoulli variance 4 p (1 - p), as in the ablation of table 4.
- Proposer, locality: a seed has a finite neighbourhood of `variants` specifications, each a step harder or easier.
- Proposer, validity: a proposal is valid with probability health * (1 - risk * d): harder seeds are nearer to the edge
  of what the policy can write.
- Manifold collapse (appendix B): a batch in which fewer than `turning` of the proposals are valid pushes the policy off
  the valid manifold, one with more pulls it back: health += repulsion * (valid rate - turning), within [0, 1].
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from selfplay.curriculum.config import CurriculumConfig, NoveltyConfig
from selfplay.curriculum.curriculum import Curriculum
from selfplay.curriculum.node import Candidate, Direction, Outcome, Seed
from selfplay.curriculum.roots import Root

_WORDS = tuple(f"{name}{i}" for name in ("a", "b", "c", "d", "e", "f", "g", "h") for i in range(25))
_WORDS_PER_TEXT = 24  # random texts of this length share next to no shingle, so only true repeats are duplicates


@dataclass(frozen=True)
class World:
    """Constants of the simulation; see the module's text for what they mean."""

    roots: int = 16
    root_difficulty: float = 0.8  # roots lie evenly in [0, this]
    seeds: int = 4  # B
    proposals: int = 4  # N
    attempts: int = 8  # K
    variants: int = 12
    stride: float = 0.06  # difficulty between neighbours
    slope: float = 0.08
    skill: float = 0.1  # at the start
    learning: float = 0.02
    risk: float = 0.9
    turning: float = 0.6
    repulsion: float = 0.05


@dataclass(frozen=True)
class SimulatedStep:
    """What one step showed."""

    valid_rate: float  # share of valid proposals
    reward: float  # mean Proposer reward
    pool: int
    admitted: int
    skill: float
    health: float


class Simulation:
    """A world with a curriculum; `step` plays one iteration of the loop."""

    def __init__(self, world: World, config: CurriculumConfig, seed: int) -> None:
        self.world = world
        self.rng = np.random.default_rng([seed, 1])  # apart from the curriculum's own generator
        self.skill = world.skill
        self.health = 1.0
        levels = np.linspace(0.0, world.root_difficulty, world.roots)
        texts = [_text(f"root {i}") for i in range(world.roots)]
        self.difficulty = dict(zip(texts, levels.tolist(), strict=True))
        roots = [Root(f"root{i}", text) for i, text in enumerate(texts)]
        self.curriculum = Curriculum(roots, config, NoveltyConfig(), seed)

    def step(self) -> SimulatedStep:
        """Select, propose, solve, reward, admit and update the simulated policy."""
        world, pool = self.world, self.curriculum
        valid, admitted, lessons, total_reward = 0, 0, 0.0, 0.0
        for seed in pool.select(world.seeds, world.proposals):
            rewards, rates, candidates = [], [], []
            for second in seed.second_parents:
                proposal = self._propose(seed)
                if proposal is None:
                    rewards.append(0.0)
                    continue
                p = self._pass_probability(self.difficulty[proposal])
                solved = int(self.rng.binomial(world.attempts, p))
                rate = solved / world.attempts
                rewards.append(4 * rate * (1 - rate))
                rates.append(rate)
                parents = (seed.node_id,) if second is None else (seed.node_id, second)
                candidates.append(Candidate(proposal, parents, "{ }" if solved else None, rate))
            pool.record(seed, rewards, rates)
            admitted += sum(pool.admit(c).outcome is Outcome.ADMITTED for c in candidates)
            valid += len(rates)
            lessons += sum(r * (1 - r) for r in rates)
            total_reward += sum(rewards)
        pool.step_end()
        count = world.seeds * world.proposals
        self.skill += world.learning * 4 * lessons / count
        self.health = float(np.clip(self.health + world.repulsion * (valid / count - world.turning), 0.0, 1.0))
        return SimulatedStep(valid / count, total_reward / count, len(pool), admitted, self.skill, self.health)

    def run(self, steps: int) -> list[SimulatedStep]:
        """Play a number of steps."""
        return [self.step() for _ in range(steps)]

    def _propose(self, seed: Seed) -> str | None:
        """A variant of the seed, or None for an invalid output."""
        level = self.difficulty[seed.text]
        if self.rng.random() >= self.health * (1 - self.world.risk * min(level, 1.0)):
            return None
        text = _text(f"{seed.text}/{seed.direction}/{self.rng.integers(self.world.variants)}")
        sign = 1 if seed.direction is Direction.UP else -1
        self.difficulty.setdefault(text, max(0.0, level + sign * self.world.stride))
        return text

    def _pass_probability(self, difficulty: float) -> float:
        return 1.0 / (1.0 + math.exp((difficulty - self.skill) / self.world.slope))


def _text(name: str) -> str:
    """A text of random words that only its name decides."""
    digest = hashlib.sha256(name.encode()).digest()
    rng = np.random.default_rng(np.frombuffer(digest, dtype=np.uint32))
    return "ensures " + " ".join(_WORDS[i] for i in rng.integers(0, len(_WORDS), _WORDS_PER_TEXT))
