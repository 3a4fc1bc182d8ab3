"""One session of ANCORA's step: propose a specification, gate it, attempt it K times, reward both (section 4).

Runs in the agent-loop workers. The rows of a session are the proposal, then its K attempts if it was accepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from selfplay.algos.ancora.advantages import PROPOSER, SOLVER
from selfplay.algos.ancora.config import FEEDBACK_TOKENS, AncoraConfig
from selfplay.algos.ancora.gate import PROVER_ERROR, TOO_LONG, GateResult, Stage, judge_proposal
from selfplay.algos.ancora.prompts import Message, longest_prompt, parse_answer, proposer_messages, solver_messages
from selfplay.engine.episode import Row, Sample, Sampler
from selfplay.objectives.config import ProposerRewardConfig
from selfplay.objectives.proposer_reward import proposer_reward
from selfplay.sandbox.base import Judgement, Prover, Verdict
from selfplay.sandbox.config import PROVER_CONFIGS
from selfplay.sandbox.registry import build_prover

EPISODE = "ancora"
FACTORY = "selfplay.algos.ancora.episode:build"


def settings_of(algo: AncoraConfig, sandbox: Any, style: str, language: str) -> dict[str, Any]:
    """What the workers need, as JSON values."""
    return {
        "style": style,
        "language": language,
        "attempts": algo.attempts_per_spec,
        "repair_turns": algo.solver.repair_turns,
        "max_prompt": algo.max_prompt_tokens,
        "max_tokens": {PROPOSER: algo.proposer.max_tokens, SOLVER: algo.solver.max_tokens},
        "reward": asdict(algo.proposer.reward_config()),
        "sandbox": asdict(sandbox),
    }


def build(settings: Mapping[str, Any]) -> AncoraEpisode:
    return AncoraEpisode(settings)


class AncoraEpisode:
    """`Episode` of `selfplay.engine.episode`; one per worker process, so the prover and its cache are shared."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.style, self.language = settings["style"], settings["language"]
        self.attempts = int(settings["attempts"])
        self.repair_turns = int(settings["repair_turns"])
        self.max_prompt = int(settings["max_prompt"])
        self.max_tokens: Mapping[str, int] = settings["max_tokens"]
        self.reward = ProposerRewardConfig(**settings["reward"])
        self.prover: Prover = build_prover(PROVER_CONFIGS[settings["sandbox"]["name"]](**settings["sandbox"]))

    async def run(self, task: Mapping[str, Any], session: int, uid: str, sampler: Sampler) -> list[Row]:
        second, prompt = self._proposer_prompt(task, session, sampler)
        proposal = await sampler.sample(prompt, max_tokens=self.max_tokens[PROPOSER], key=(PROPOSER,))
        parents = [task["seed"], *([second["text"]] if second else [])]
        result = await asyncio.to_thread(self._gate, proposal.text, parents)
        if result.accepted and self._longest(result.spec, sampler) > self.max_prompt:
            result = GateResult(False, Stage.FORMAT, TOO_LONG, result.spec)  # nobody could be asked for it
        attempts = await self._attempts(result.spec, uid, session, sampler) if result.accepted else []
        solved = sum(row.reward == 1.0 for row in attempts)
        reward = proposer_reward(result.accepted, solved, self.attempts, self.reward)
        record = {
            "verdict": "accepted" if result.accepted else "rejected",
            "stage": str(result.stage),
            "reason": result.reason,
            "spec": result.spec,
            "parents": [task["seed_id"], *([second["id"]] if second else [])],
            "direction": task["direction"],
            "solved": solved,
            "attempts": len(attempts),
        }
        return [Row.of(PROPOSER, uid, prompt, proposal, reward, record), *attempts]

    def _proposer_prompt(
        self, task: Mapping[str, Any], session: int, sampler: Sampler
    ) -> tuple[Mapping[str, str] | None, list[int]]:
        """The second parent, if any, and the prompt; a second parent that does not fit into it is left out."""
        style = {"style": self.style, "language": self.language}
        for second in (task["seconds"][session], None):
            text = second["text"] if second else None
            prompt = sampler.render(proposer_messages(task["seed"], task["direction"], text, **style))
            if len(prompt) <= self.max_prompt:
                return second, prompt
        raise ValueError(
            f"algo.max_prompt_tokens: {self.max_prompt} is too small: seed {task['seed_id']} takes {len(prompt)}"
        )

    def _longest(self, spec: str, sampler: Sampler) -> int:
        return longest_prompt(spec, sampler.render, style=self.style, language=self.language)

    def _gate(self, response: str, parents: list[str]) -> GateResult:
        result = judge_proposal(response, parents, self.prover, language=self.language)
        if result.reason == PROVER_ERROR:  # says nothing about the proposal: better no step than a wrong reward
            raise RuntimeError(f"the prover failed on the specification {result.spec!r}")
        return result

    async def _attempts(self, spec: str, uid: str, session: int, sampler: Sampler) -> list[Row]:
        messages = solver_messages(spec, style=self.style, language=self.language)
        solver = SolverTurns(self, spec, messages, sampler)
        return list(await asyncio.gather(*[solver.attempt(k, f"{uid}/{session}") for k in range(self.attempts)]))


class SolverTurns:
    """Attempts at one specification: one turn, and up to `repair_turns` more after what the verifier said (S-ReAct)."""

    def __init__(self, episode: AncoraEpisode, spec: str, messages: list[Message], sampler: Sampler) -> None:
        self.episode, self.spec, self.messages, self.sampler = episode, spec, messages, sampler
        self.prompt = sampler.render(messages)

    async def attempt(self, k: int, group: str) -> Row:
        """A row that holds all turns; the verifier's messages in between are masked."""
        max_tokens, turns = self.episode.max_tokens[SOLVER], 1 + self.episode.repair_turns
        row = Row(SOLVER, group, self.prompt, [], [], [], 0.0, {})
        for turn in range(turns):
            sample = await self.sampler.sample(
                self.prompt + row.response_ids, max_tokens=max_tokens, key=(SOLVER, k, *([turn] if turn else []))
            )
            row.append(sample)
            answer, judgement = await asyncio.to_thread(judge, self.spec, sample, self.episode.prover)
            if judgement.verified or turn + 1 == turns:
                break
            row.append_foreign(self._feedback(sample, judgement))
        row.reward = float(judgement.verified)
        row.record = {
            "verdict": str(judgement.verdict),
            "detail": judgement.detail,
            "spec": self.spec,
            "answer": answer,
            "turns": turn + 1,
        }
        return row

    def _feedback(self, sample: Sample, judgement: Judgement) -> list[int]:
        """The tokens between two turns: the end of the model's, the verifier's message, and a new turn opened."""
        said = f"{judgement.verdict}: {judgement.detail}"
        text = self.sampler.decode(self.sampler.encode(said)[:FEEDBACK_TOKENS])
        turns = [{"role": "assistant", "content": ""}, {"role": "user", "content": text}]
        whole = self.sampler.render([*self.messages, *turns])
        if whole[: len(self.prompt)] != self.prompt:
            raise ValueError("algo.solver.repair_turns: the chat template of this backbone rewrites earlier turns")
        tail = whole[len(self.prompt) :]
        return tail[1:] if sample.token_ids[-1:] == tail[:1] else tail


def judge(spec: str, sample: Sample, prover: Prover) -> tuple[str, Judgement]:
    """The answer that a solver's response holds, and the prover's strict verdict on it."""
    parsed = parse_answer(sample.text, spec)
    if parsed.rejection is not None:
        return "", Judgement(Verdict.MALFORMED, str(parsed.rejection))
    judgement = prover.verify(spec, parsed.text)
    if judgement.verdict is Verdict.ERROR:
        raise RuntimeError(f"the prover failed: {judgement.detail}")
    return parsed.text, judgement
