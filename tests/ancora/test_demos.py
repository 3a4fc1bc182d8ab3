"""Generated demonstrations: right by construction, the same for one seed, and blind to the held-out specifications."""

import random
import time
from importlib.resources import files

from selfplay.algos.ancora.demos import Demo, corpus, generate
from selfplay.algos.ancora.gate import judge_proposal
from selfplay.algos.ancora.grammar import name_key
from selfplay.algos.ancora.prompts import LABELS, parse_answer
from selfplay.curriculum.roots import load_roots
from selfplay.sandbox.base import Verdict
from selfplay.sandbox.dafny_lite import DafnyLite, alpha_normal_form

PROVER = DafnyLite()
ROOT_FILES = files("selfplay.algos.ancora").joinpath("roots")
ROOTS = [root for name in ("train", "heldout") for root in load_roots(str(ROOT_FILES.joinpath(f"{name}.jsonl")))]
FORBIDDEN = {name_key(root.spec) for root in ROOTS}


def demos_of(role: str, n: int, seed: int = 5) -> list[Demo]:
    demos = generate(seed, 4 * n, FORBIDDEN)
    return [demo for demo in demos if demo.role == role][:n]


def test_solver_demonstrations_verify() -> None:
    for demo in demos_of("solver", 250):
        parsed = parse_answer(demo.response, demo.spec)
        assert parsed.text == demo.answer
        assert PROVER.verify(demo.spec, parsed.text).verified, demo.spec + "\n" + demo.answer


def test_proposer_demonstrations_pass_the_gate_and_can_be_met() -> None:
    for demo in demos_of("proposer", 250):
        result = judge_proposal(demo.response, demo.parents, PROVER)
        assert result.accepted, (result, demo.response)
        assert result.spec == demo.spec
        assert PROVER.verify(demo.spec, demo.answer).verified, demo.spec + "\n" + demo.answer


def test_both_directions_and_crossover_occur() -> None:
    demos = demos_of("proposer", 400)
    directions = [demo.messages[-1]["content"].splitlines()[0] for demo in demos]
    assert min(directions.count("up"), directions.count("down")) > 100
    assert sum(len(demo.parents) == 2 for demo in demos) > 30


def test_forbidden_specifications_never_occur() -> None:
    held_out = {alpha_normal_form(root.spec) for root in ROOTS}
    demos = generate(11, 1500, FORBIDDEN)
    for demo in demos:
        for spec in (*demo.parents, demo.spec):
            assert alpha_normal_form(spec) not in held_out, spec
    unfiltered = generate(11, 1500)
    assert any(alpha_normal_form(demo.spec) in held_out for demo in unfiltered), "the filter has nothing to do"


def test_one_seed_one_list() -> None:
    assert generate(3, 200, FORBIDDEN) == generate(3, 200, FORBIDDEN)
    assert generate(3, 200, FORBIDDEN) != generate(4, 200, FORBIDDEN)
    random.seed(0)
    assert generate(3, 50) == generate(3, 50)


def test_a_spoiled_answer_is_a_program_that_does_not_verify() -> None:
    demos = [demo for demo in generate(7, 400, FORBIDDEN, proposer_share=0.0, wrong_share=1.0) if demo.role == "solver"]
    verdicts = [PROVER.verify(demo.spec, demo.answer).verdict for demo in demos]
    assert Verdict.MALFORMED not in verdicts
    lucky = sum(verdict is Verdict.VERIFIED for verdict in verdicts)  # as x + 1 * 9 where anything above x will do
    assert lucky < 0.2 * len(verdicts)


def test_share_of_wrong_answers() -> None:
    demos = generate(8, 400, proposer_share=0.0, wrong_share=0.5)
    share = sum(PROVER.verify(demo.spec, demo.answer).verified for demo in demos) / len(demos)
    assert 0.45 < share < 0.67  # half, and the lucky ones


def test_share_of_roles() -> None:
    demos = generate(0, 2000, proposer_share=0.25)
    share = sum(demo.role == "proposer" for demo in demos) / len(demos)
    assert 0.2 < share < 0.3


def test_ten_thousand_in_seconds() -> None:
    start = time.process_time()
    assert len(generate(1, 10_000, FORBIDDEN)) == 10_000
    assert time.process_time() - start < 10


def test_corpus_holds_all_labels() -> None:
    data = corpus(0, 20)
    assert all(any(label in phrase for phrase in data["phrases"]) for label in LABELS)
    assert len(data["texts"]) == 40
