"""The baselines on ANCORA's engine (section 5): no reinforcement, supervised steps on what the verifier let pass.

    RFT   iterative rejection fine-tuning: attempts at the roots, supervised steps on those that verify
    PSV   propose, solve, verify: a few-shot Proposer that is never trained writes specifications; the Solver is trained
          by rejection fine-tuning on its verified answers to them

Both take the place of `stepper.Stepper`, so warm-up, evaluation, checkpoints and reports are the same as ANCORA's.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from selfplay.algos.ancora.advantages import PROPOSER, SOLVER
from selfplay.algos.ancora.config import RejectionConfig
from selfplay.algos.ancora.curriculum_step import OUTCOMES
from selfplay.algos.ancora.distill import deduplicated, harvest
from selfplay.algos.ancora.episode import judge
from selfplay.algos.ancora.evaluation import THREADS, few_shot
from selfplay.algos.ancora.gate import TOO_LONG, GateResult, Stage, judge_proposal
from selfplay.algos.ancora.prompts import (
    DIRECTIONS,
    longest_prompt,
    proposer_messages,
    proposer_response,
    solver_messages,
)
from selfplay.algos.supervised import Supervised
from selfplay.curriculum.curriculum import Curriculum
from selfplay.curriculum.node import Candidate, Outcome
from selfplay.engine.episode import Message, Sample
from selfplay.engine.session import Session, StepResult
from selfplay.runs.rollouts import Rollout
from selfplay.sandbox.base import Prover

Counts = Counter[str]
NO_THOUGHT = ("as given",) * 7


@dataclass(frozen=True)
class Proposal:
    """A specification to attempt, and the pool's node that it came from."""

    spec: str
    parent: str


class RejectionStepper(ABC):
    """One iteration: specifications, K attempts at each, supervised steps on the verified ones, weight sync."""

    def __init__(
        self, session: Session, algo: RejectionConfig, prover: Prover, style: str, language: str, seed: int
    ) -> None:
        self.session, self.algo, self.prover, self.seed = session, algo, prover, seed
        self.style, self.language = style, language

    @abstractmethod
    def propose(self, curriculum: Curriculum) -> tuple[list[Proposal], list[dict[str, Any]]]:
        """The iteration's specifications, and the rows of the proposals that led to them, if any."""

    @abstractmethod
    def take_in(self, curriculum: Curriculum, proposals: Sequence[Proposal], rows: Sequence[dict[str, Any]]) -> Counts:
        """Grow the pool by what was solved; counts by outcome."""

    def step(self, curriculum: Curriculum, lr: float) -> tuple[StepResult, dict[str, Any]]:
        """The rows and the step's metrics; the pool has moved on by one step."""
        timing: dict[str, float] = {}
        started = mark = time.monotonic()
        proposals, rows = self.propose(curriculum)
        attempts = self._solve(proposals, curriculum.step)
        rows += attempts
        mark = _lap(timing, "generate", mark)
        losses = self._train(attempts, curriculum.step, lr)
        mark = _lap(timing, "update", mark)
        self.session.sync()
        _lap(timing, "sync", mark)
        outcomes = self.take_in(curriculum, proposals, attempts)
        curriculum.step_end()
        timing["step"] = time.monotonic() - started
        values = self._metrics(rows, curriculum, losses)
        values |= {f"pool/{name}": float(outcomes.get(name, 0)) for name in OUTCOMES}
        values |= {f"timing/{phase}": seconds for phase, seconds in timing.items()}
        values["timing/other"] = timing["step"] - sum(timing[p] for p in ("generate", "update", "sync"))
        values["tokens_per_s"] = values["tokens"] / timing["step"]
        return StepResult(rows, {}, timing), values

    def readable(self, result: StepResult) -> list[Rollout]:
        """The last step's rows for `rollouts/`."""
        names = ("key", "role", "group", "prompt", "response", "verdict", "reward", "detail")
        return [Rollout(**{name: row[name] for name in names}) for row in result.rows]

    def _solve(self, proposals: Sequence[Proposal], step: int) -> list[dict[str, Any]]:
        """K attempts at each specification, judged."""
        k = self.algo.attempts_per_spec
        owners = [(i, proposal) for i, proposal in enumerate(proposals) for _ in range(k)]
        chats = [solver_messages(p.spec, style=self.style, language=self.language) for _, p in owners]
        prompts, samples = self._sample(chats, self.algo.solver.max_tokens, (SOLVER, step))
        with ThreadPoolExecutor(THREADS) as pool:
            judged = list(pool.map(lambda o, s: judge(o[1].spec, s, self.prover), owners, samples))
        return [
            self._row(SOLVER, f"{step}_{n}", f"{step}_{i}", prompt, sample, float(verdict.verified))
            | {"verdict": str(verdict.verdict), "detail": verdict.detail, "spec": proposal.spec, "answer": answer}
            for n, ((i, proposal), prompt, sample, (answer, verdict)) in enumerate(
                zip(owners, prompts, samples, judged, strict=True)
            )
        ]

    def _sample(
        self, chats: Sequence[Sequence[Message]], max_tokens: int, key: tuple[Any, ...]
    ) -> tuple[list[list[int]], list[Sample]]:
        sampling = self.algo.sampling
        prompts = [self.session.render(chat) for chat in chats]
        outputs = self.session.generate(
            prompts, max_tokens=max_tokens, seed_key=key, temperature=sampling.temperature, top_p=sampling.top_p
        )
        return prompts, outputs

    def _row(self, role: str, key: str, group: str, prompt: list[int], sample: Sample, reward: float) -> dict[str, Any]:
        text = self.session.tokenizer.decode(prompt, skip_special_tokens=True)
        return {
            "key": key,
            "role": role,
            "group": group,
            "reward": reward,
            "tokens": len(sample.token_ids),
            "prompt": text,
            "response": sample.text,
            "prompt_ids": prompt,
            "response_ids": sample.token_ids,
        }

    def _train(self, attempts: Sequence[dict[str, Any]], step: int, lr: float) -> list[float]:
        """Supervised steps on the verified attempts, without repeats; none where nothing verified."""
        settings = self.algo.rejection
        kept = deduplicated(harvest(attempts, step, self.session.tokenizer.eos_token_id), settings.max_sim)
        ranks = self.session.cluster.world_size
        batch_size = min(settings.batch_size, len(kept) // ranks * ranks)
        losses: list[float] = []
        if batch_size:
            pairs = [(item["prompt_ids"], item["response_ids"]) for item in kept]
            steps = settings.epochs * (len(kept) // batch_size)
            recipe = Supervised(steps, batch_size, lr, seed=self.seed + step, constant=True)
            recipe.train(self.session, pairs, 0, lambda _, loss: losses.append(loss))
        return losses

    def _metrics(
        self, rows: Sequence[dict[str, Any]], curriculum: Curriculum, losses: Sequence[float]
    ) -> dict[str, Any]:
        attempts = [row for row in rows if row["role"] == SOLVER]
        proposals = [row for row in rows if row["role"] == PROPOSER]
        accepted = [row for row in proposals if row["verdict"] == "accepted"]
        rate = float(np.mean([row["reward"] for row in attempts])) if attempts else 0.0
        return {
            "rows": len(rows),
            "tokens": sum(row["tokens"] for row in rows),
            "attempts": len(attempts),
            "reward/proposer": 0.0,
            "reward/solver": rate,
            "q_valid": len(accepted) / len(proposals) if proposals else 1.0,
            "pass_rate": rate,
            "verdicts": dict(Counter(row["verdict"] for row in attempts)),
            "rejections": dict(Counter(row["detail"] for row in proposals if row not in accepted)),
            "sft/loss": float(np.mean(losses)) if losses else 0.0,
            "pool/size": len(curriculum),
            "pool/hash": curriculum.pool_hash(),
        }


class Rft(RejectionStepper):
    """Attempts at roots, in turn: every root comes up equally often."""

    def propose(self, curriculum: Curriculum) -> tuple[list[Proposal], list[dict[str, Any]]]:
        """`specs_per_step` roots, a fresh permutation an epoch."""
        roots = [curriculum.dag.node(row) for row in curriculum.dag.roots]
        count = self.algo.rejection.specs_per_step
        places = range(curriculum.step * count, (curriculum.step + 1) * count)
        chosen = []
        for place in places:
            epoch, at = divmod(place, len(roots))
            order = np.random.default_rng([self.seed, epoch]).permutation(len(roots))
            chosen.append(roots[int(order[at])])
        return [Proposal(node.text, node.id) for node in chosen], []

    def take_in(self, curriculum: Curriculum, proposals: Sequence[Proposal], rows: Sequence[dict[str, Any]]) -> Counts:
        """The pool stays what it was."""
        return Counter()


class Psv(RejectionStepper):
    """A Proposer that imitates examples in its prompt, and a Solver trained on what it proves."""

    def propose(self, curriculum: Curriculum) -> tuple[list[Proposal], list[dict[str, Any]]]:
        """`specs_per_step` prompts, each with examples from the pool; the accepted specifications."""
        rng = np.random.default_rng([self.seed, curriculum.step])
        members = curriculum.dag.live_rows()
        parents = [curriculum.dag.node(int(row)) for row in rng.choice(members, self.algo.rejection.specs_per_step)]
        chats = [self._chat(curriculum, node.text, rng) for node in parents]
        prompts, samples = self._sample(chats, self.algo.proposer.max_tokens, (PROPOSER, curriculum.step))

        def gate(node: Any, sample: Sample) -> GateResult:
            result = judge_proposal(sample.text, [node.text], self.prover, language=self.language)
            style = {"style": self.style, "language": self.language}
            if (
                result.accepted
                and longest_prompt(result.spec, self.session.render, **style) > self.algo.max_prompt_tokens
            ):
                return GateResult(False, Stage.FORMAT, TOO_LONG, result.spec)
            return result

        with ThreadPoolExecutor(THREADS) as pool:
            results = list(pool.map(gate, parents, samples))
        rows = [
            self._row(PROPOSER, f"{curriculum.step}_p{n}", f"{curriculum.step}", prompt, sample, 0.0)
            | {
                "verdict": "accepted" if result.accepted else "rejected",
                "detail": "" if result.accepted else f"{result.stage}/{result.reason}",
                "spec": result.spec,
                "solved": 0,
            }
            for n, (prompt, sample, result) in enumerate(zip(prompts, samples, results, strict=True))
        ]
        accepted = zip(parents, results, strict=True)
        return [Proposal(result.spec, node.id) for node, result in accepted if result.accepted], rows

    def _chat(self, curriculum: Curriculum, seed: str, rng: np.random.Generator) -> list[Message]:
        """Examples, as many as fit; then the seed, up or down at random."""
        style = {"style": self.style, "language": self.language}
        examples = examples_of(curriculum)
        shots = [
            (
                proposer_messages(parent, DIRECTIONS[0], **style),
                proposer_response(NO_THOUGHT, child, language=self.language),
            )
            for parent, child in (examples[i] for i in rng.permutation(len(examples))[: self.algo.rejection.shots])
        ]
        ask = proposer_messages(seed, DIRECTIONS[int(rng.integers(2))], **style)
        return few_shot(self.session, shots, ask, self.algo.max_prompt_tokens)

    def take_in(self, curriculum: Curriculum, proposals: Sequence[Proposal], rows: Sequence[dict[str, Any]]) -> Counts:
        """Solved and new specifications join the pool and are proposed from later."""
        outcomes: Counter[str] = Counter()
        k = self.algo.attempts_per_spec
        for i, proposal in enumerate(proposals):
            solved = [row["answer"] for row in rows[i * k : (i + 1) * k] if row["reward"] == 1.0]
            if not solved:
                continue
            candidate = Candidate(proposal.spec, (proposal.parent,), solved[0], len(solved) / k)
            admission = curriculum.admit(candidate)
            outcomes[str(admission.outcome)] += 1
            if admission.outcome is Outcome.REJECTED:
                outcomes[f"rejected/{admission.reason}"] += 1
        return outcomes


def examples_of(curriculum: Curriculum) -> list[tuple[str, str]]:
    """Pairs of a specification and a harder one: neighbours in a family's ladder of roots, nodes with their child."""
    roots = [curriculum.dag.node(row) for row in curriculum.dag.roots]
    pairs = [(a.text, b.text) for a, b in pairwise(roots) if a.family == b.family]
    nodes = (curriculum.dag.node(int(row)) for row in curriculum.dag.live_rows())
    for node in nodes:
        if node.parents and node.parents[0] in curriculum:
            pairs.append((curriculum.node(node.parents[0]).text, node.text))
    return pairs


def _lap(timing: dict[str, float], name: str, since: float) -> float:
    now = time.monotonic()
    timing[name] = now - since
    return now
