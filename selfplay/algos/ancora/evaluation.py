"""Held-out pass@k and the held-out valid rate: single turns at training's temperature, judged by the same prover."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

from selfplay.algos.ancora.config import AncoraConfig
from selfplay.algos.ancora.episode import judge
from selfplay.algos.ancora.gate import judge_proposal
from selfplay.algos.ancora.prompts import DIRECTIONS, Message, proposer_messages, solver_messages, solver_response
from selfplay.algos.scoring import score
from selfplay.curriculum.roots import Root
from selfplay.engine.session import Session
from selfplay.runs.summary import EvalScore
from selfplay.sandbox.base import Prover

THREADS = 2  # of the verifier
Beat = Callable[[int, int], None]


@dataclass(frozen=True)
class Evaluation:
    """The score, and each specification's record for `rollouts/`."""

    score: EvalScore
    records: list[dict[str, Any]]


class Examiner:
    """Asks the session's policy. The request seeds do not depend on the step, so two evaluations differ by the model
    alone."""

    def __init__(
        self,
        session: Session,
        prover: Prover,
        algo: AncoraConfig,
        style: str,
        language: str,
        examples: Sequence[Root] = (),
    ) -> None:
        """`examples` are solved specifications for few-shot prompts."""
        self.session, self.prover, self.algo = session, prover, algo
        self.style, self.language, self.examples = style, language, examples

    def solve(self, roots: Sequence[Root], n: int, beat: Beat, seed: int | None = None) -> Evaluation:
        """`n` attempts at each of `roots`; `seed` in the place of the run's."""
        prompts = [self.session.render(self._ask(root)) for root in roots]
        outputs = self._generate(prompts, n, self.algo.solver.max_tokens, "evaluation", seed)
        owners = [root for root in roots for _ in range(n)]
        with ThreadPoolExecutor(THREADS) as pool:
            judged = pool.map(lambda root, sample: judge(root.spec, sample, self.prover), owners, outputs)
            verdicts = list(_watched(judged, len(outputs), beat))
        records, counts = [], []
        for i, root in enumerate(roots):
            mine = verdicts[i * n : (i + 1) * n]
            solved = [answer for answer, verdict in mine if verdict.verified]
            counts.append(len(solved))
            records.append(
                {
                    "id": root.name,
                    "spec": root.spec,
                    "family": root.family,
                    "grade": root.grade,
                    "pass_at_1": len(solved) / n,
                    "verdicts": dict(Counter(str(verdict.verdict) for _, verdict in mine)),
                    "first_answer": solved[0] if solved else None,
                }
            )
        return Evaluation(score(counts, n), records)

    def _ask(self, root: Root) -> list[Message]:
        """The specification, after `eval.shots` other ones with proofs (few-shot prompting) or as many as fit."""
        form = self.prover.normal_form(root.spec)
        style = {"style": self.style, "language": self.language}
        shots = [
            (solver_messages(other.spec, **style), solver_response(other.answer, language=self.language))
            for other in self.examples
            if other.answer is not None and self.prover.normal_form(other.spec) != form  # test-time training
        ][: self.algo.eval.shots]
        return few_shot(self.session, shots, solver_messages(root.spec, **style), self.algo.max_prompt_tokens)

    def validity(self, roots: Sequence[Root], beat: Beat, seed: int | None = None) -> float:
        """The share of proposals from `roots`, harder and easier by turns, that the gate accepts."""
        n = self.algo.warmup.distill.validity_samples
        seeds = [root.spec for root in roots]
        prompts = [
            self.session.render(proposer_messages(spec, DIRECTIONS[i % 2], style=self.style, language=self.language))
            for i, spec in enumerate(seeds)
        ]
        outputs = self._generate(prompts, n, self.algo.proposer.max_tokens, "validity", seed)
        owners = [spec for spec in seeds for _ in range(n)]

        def accepted(spec: str, text: str) -> bool:
            return judge_proposal(text, [spec], self.prover, language=self.language).accepted

        with ThreadPoolExecutor(THREADS) as pool:
            judged = pool.map(accepted, owners, [output.text for output in outputs])
            return sum(_watched(judged, len(outputs), beat)) / len(outputs)

    def _generate(self, prompts: Sequence[list[int]], n: int, max_tokens: int, key: str, seed: int | None) -> list[Any]:
        sampling = self.algo.sampling
        return self.session.generate(
            [prompt for prompt in prompts for _ in range(n)],
            max_tokens=max_tokens,
            seed_key=(key,),
            seed=seed,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
        )


def few_shot(
    session: Session, shots: Sequence[tuple[list[Message], str]], ask: list[Message], room: int
) -> list[Message]:
    """A chat of `shots` (question, answer) and then `ask`; shots that would make it longer than `room` are left out."""
    system = [message for message in ask if message["role"] == "system"]
    question = [message for message in ask if message["role"] != "system"]
    before: list[Message] = []
    for messages, answer in shots:
        turn = [m for m in messages if m["role"] != "system"] + [{"role": "assistant", "content": answer}]
        if len(session.render([*system, *before, *turn, *question])) <= room:
            before += turn
    return [*system, *before, *question]


def _watched(results: Iterator[Any], total: int, beat: Beat) -> Iterator[Any]:
    """The results, with a sign of life every fifty."""
    done = 0
    while piece := list(islice(results, 50)):
        yield from piece
        done += len(piece)
        beat(done, total)
