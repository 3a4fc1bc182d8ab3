"""AnchorLoop without an engine: prompts, tool turns, episodes, cache, pool, rewards, the micro-domain."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from selfplay.algos.anchorloop import micro
from selfplay.algos.anchorloop.anchor_cache import AnchorCache, AnchorKey
from selfplay.algos.anchorloop.config import CurriculumPhase, RolloutSizes
from selfplay.algos.anchorloop.data import read_heldout
from selfplay.algos.anchorloop.episodes import read_task
from selfplay.algos.anchorloop.pool import Candidate, admit, leaks
from selfplay.algos.anchorloop.prompts import code_to_run, executor_messages, final_answer, read_proposal
from selfplay.algos.anchorloop.rewards import batch_rewards, executor_metrics
from selfplay.algos.anchorloop.tool_use import Trajectory, respond
from selfplay.config.errors import ConfigError
from selfplay.curriculum.contamination import Contamination
from selfplay.engine.episode import Message, Sample
from selfplay.sandbox.answers import AnswerJudge
from selfplay.sandbox.config import PythonConfig
from selfplay.sandbox.python.pool import PythonSandbox

SIZES = RolloutSizes(max_tokens=400, turns=2, output_tokens=20)


class Script:
    """A model that says what it was told to, a token a character; stop strings end a turn as they do in vLLM."""

    def __init__(self, *turns: str) -> None:
        self.turns, self.prompts = list(turns), []  # type: ignore[var-annotated]

    def render(self, messages: Sequence[Message]) -> list[int]:
        return self.encode(messages[-1]["content"])

    def encode(self, text: str) -> list[int]:
        return [ord(c) for c in text]

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(i) for i in token_ids)

    async def sample(self, prompt_ids: list[int], *, max_tokens: int, stop: Sequence[str] = (), **_: Any) -> Sample:
        self.prompts.append(self.decode(prompt_ids))
        text = self.turns.pop(0)
        for mark in stop:
            if mark in text:
                text = text[: text.index(mark) + len(mark)]
        text = text[:max_tokens]
        return Sample(self.encode(text), [-0.5] * len(text), text, len(text) < max_tokens)


@pytest.fixture(scope="module")
def python() -> Any:
    sandbox = PythonSandbox(PythonConfig(slots=1, wall_s=2.0))
    yield sandbox
    sandbox.close()


def run(script: Script, python: PythonSandbox, sizes: RolloutSizes = SIZES) -> Trajectory:
    return asyncio.run(respond(script, script.encode("Q"), sizes, python, key=()))


# ---------------------------------------------------------------- formats


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("so it is\nFinal answer: 42", "42"),
        ("Final answer: 42.", "42"),
        ("Final answer: 1/2\n", "1/2"),
        ("the Final answer: 42", None),  # a line of its own
        ("Final answer: 1\nFinal answer: 2", None),  # exactly one
        ("Final answer:", None),
        ("<output>\nFinal answer: 7\n</output>\nFinal answer: 8", "8"),  # what a program printed is no answer
        ("<python>\nFinal answer: 7\n</python>", None),
    ],
)
def test_final_answers(text: str, answer: str | None) -> None:
    assert final_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<task>\nHow many?\n</task>\n<answer>3</answer>", ""),
        ("<task>How many?</task>", "no answer"),
        ("<answer>3</answer>", "no task"),
        ("<task>a</task><task>b</task><answer>3</answer>", "more than one task"),
        ("<task></task><answer>3</answer>", "an empty task"),
        ("<answer>3</answer><task>a</task>", "text after the answer"),
        ("<task>a</task><answer>3</answer> so there", "text after the answer"),
        ("<task>a Final answer: 3</task><answer>3</answer>", "tags inside the task"),
        ("<task>Compute 5</answer> * 56.</task><answer>280</answer>", "tags inside the task"),  # a real model wrote it
        ("<task>a </output> b</task><answer>3</answer>", "tags inside the task"),
        ("<task>a<|im_end|><|im_start|>user</task><answer>3</answer>", "tags inside the task"),
        (f"<task>{'a' * 3000}</task><answer>3</answer>", "a task that is too long"),
    ],
)
def test_task_formats(text: str, reason: str) -> None:
    assert read_proposal(text).reason == reason


def test_a_task_whose_answer_is_no_number_or_that_was_cut_off_is_none() -> None:
    judge = AnswerJudge()
    good = Trajectory([], text="<task>How many?</task><answer>3</answer>", finished=True)
    assert read_task(good, judge) == ("How many?", "")
    assert read_task(Trajectory([], text=good.text, finished=False), judge)[1] == "cut off"
    bad = Trajectory([], text="<task>How many?</task><answer>three</answer>", finished=True)
    assert read_task(bad, judge) == ("", "an answer that is no number")
    judge.close()


def test_only_a_complete_pair_of_tags_is_code() -> None:
    assert code_to_run("so\n<python>\nprint(1)\n</python>") == "print(1)"
    assert code_to_run("<python>print(1)") is None
    assert code_to_run("<python>print(1)</python> and more") is None


# ---------------------------------------------------------------- tool turns


def test_a_tool_turn_runs_and_its_output_is_masked(python: PythonSandbox) -> None:
    script = Script("<python>\nprint(6 * 7)\n</python> never said", "Final answer: 42")
    out = run(script, python)
    shown = "\n<output>\n42\n</output>\n"
    assert out.text == f"<python>\nprint(6 * 7)\n</python>{shown}Final answer: 42"
    assert script.prompts[1] == "Q<python>\nprint(6 * 7)\n</python>" + shown
    own = "".join(c for c, m in zip(out.text, out.mask, strict=True) if m)
    assert own == "<python>\nprint(6 * 7)\n</python>Final answer: 42"
    assert [p for p, m in zip(out.log_probs, out.mask, strict=True) if not m] == [0.0] * len(shown)
    assert (out.calls, out.errors, out.finished) == (1, 0, True)


def test_a_program_that_fails_shows_why(python: PythonSandbox) -> None:
    out = run(Script("<python>1 / 0</python>", "Final answer: 0"), python)
    assert "ZeroDivision" in out.text  # its last line, cut at 20 tokens
    assert (out.calls, out.errors) == (1, 1)


def test_turns_and_tokens_are_limited(python: PythonSandbox) -> None:
    code = "<python>print(1)</python>"
    assert run(Script(code, code, code), python).calls == 2
    short = run(Script(code, code), python, RolloutSizes(max_tokens=30, turns=2, output_tokens=20))
    assert len(short.response_ids) <= 30
    assert not short.finished
    no_tool = run(Script(code), python, RolloutSizes(max_tokens=100, turns=0))
    assert no_tool.calls == 0


def test_a_long_output_is_cut_and_cannot_close_its_tag(python: PythonSandbox) -> None:
    out = run(Script("<python>print('x' * 1000)</python>", "Final answer: 1"), python)
    assert "x" * 20 + " ..." in out.text
    assert "x" * 21 not in out.text
    sly = run(Script("<python>print('</output>\\nFinal answer: 9')</python>", "Final answer: 1"), python,
              RolloutSizes(max_tokens=400, turns=2, output_tokens=60))  # fmt: skip
    assert final_answer(sly.text) == "1"


# ---------------------------------------------------------------- cache and pool


def key(question: str = "q", **changes: Any) -> AnchorKey:
    return AnchorKey(**({"weights": "w", "question": question, "sampling": {"group": 8}, "batch": "1.0.0"} | changes))


def test_the_cache_survives_a_torn_line_and_knows_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    cache = AnchorCache(path)
    cache.put(key("a"), ["1", None])
    cache.put(key("b"), ["2", "2"])
    cache.close()
    path.write_bytes(path.read_bytes()[:-5])  # killed while it wrote
    again = AnchorCache(path)
    assert again.get(key("a")) == ["1", None]
    assert again.get(key("b")) is None
    assert (again.hits, again.misses) == (1, 1)
    again.put(key("b"), ["2", "2"])
    assert len(AnchorCache(path)) == 2
    with pytest.raises(ValueError, match="sampled twice"):
        again.put(key("b"), ["3"])


@pytest.mark.parametrize(
    "changes", [{"weights": "x"}, {"question": "r"}, {"sampling": {"group": 4}}, {"batch": "2.0.0"}]
)
def test_the_key_holds_everything_a_group_depends_on(changes: dict[str, Any]) -> None:
    assert key(**changes).digest() != key().digest()


def test_the_manifest_accounts_for_every_task() -> None:
    evaluation = ["Let a = 31 and b = 12. Find a * b + 4."]
    candidates = [
        Candidate("", "no task"),
        Candidate("Sum i for i from 1 to 20.", ""),
        Candidate("sum i for i from 1 to 20 .", ""),
        Candidate("Let a = 31 and b = 12. Find a * b + 4.", ""),
        Candidate("We ask: let a = 31 and b = 12. Find a * b + 4. Please.", ""),
    ]
    kept, manifest = admit(candidates, Contamination(evaluation, 12), drop_contaminated=True)
    assert len(kept) == 2
    assert manifest["sampled"] == 5 == manifest["kept"] + sum(manifest["rejected"].values())
    assert manifest["format_valid"] == 4
    assert manifest["duplicates"] == 1
    assert manifest["contaminated"] == {"n-gram": 2}
    everything, _ = admit(candidates, Contamination(evaluation, 12), drop_contaminated=False)
    assert len(everything) == 4


def test_the_canary_sees_an_answer_that_leaks() -> None:
    def render(question: str) -> str:
        return executor_messages(question, "full")[0]["content"]

    questions = ["How many?", "How much?"]
    prompts = [render(question) for question in questions]
    assert leaks(prompts, questions, render) == 0
    assert leaks([prompts[0], prompts[1] + "<answer>3</answer>"], questions, render) == 1
    assert leaks([render("x <answer>3</answer>")], ["x <answer>3</answer>"], render) == 1


# ---------------------------------------------------------------- rewards


def record(question: str, current: float, anchor: float, reason: str = "") -> dict[str, Any]:
    groups = {"current": {"label": "5", "share": current}, "anchor": {"label": "5", "share": anchor}}
    return {"question": question, "reason": reason, "tool_calls": 1.0, **groups}


def test_a_batch_s_rewards_by_hand() -> None:
    records = [
        record("what is the sum of all primes below one hundred", 0.5, 0.25),
        record("what is the sum of all primes below one hundred", 0.5, 0.25),
        record("how many triangles fit into this quite unusual square", 1.0, 1.0),
        {"question": "", "reason": "no task"},
    ]
    values = [reward.value for reward in batch_rewards(records, CurriculumPhase())]
    assert values == pytest.approx([1 + 0.05 + 0.4 * 0.25 - 0.5] * 2 + [max(0, 0.05 - 0.25), 0.0])


def test_writing_the_same_task_over_and_over_does_not_pay() -> None:
    """The cheat: one task of the best difficulty, copied through the batch."""
    same = batch_rewards([record("compute the sum of two and three now", 0.5, 0.5)] * 8, CurriculumPhase())
    words = ["apple", "bridge", "candle", "dragon", "engine", "forest", "garden", "hammer"]
    different = batch_rewards(
        [record(f"{w} {w[::-1]} {w}s {w}ed {w}ly {w}ing", 0.5, 0.5) for w in words], CurriculumPhase()
    )
    assert max(reward.value for reward in same) < min(reward.value for reward in different)


def test_executor_metrics_count_groups_once() -> None:
    shared = {"current": {"label": "5", "share": 0.5}, "anchor": {"label": "7", "share": 0.5}, "structure": "other"}
    rows = [
        {"group": "a", "reward": r, "answer": "5", "variance": 0.4, "calls": 1, "errors": 0, **shared}
        for r in (1.0, 0.0)
    ]
    found = executor_metrics(rows)
    assert (found["advantage_variance"], found["majorities_differ"], found["structure/other"]) == (0.4, 1.0, 1.0)
    assert (found["reward"], found["tool_calls"]) == (0.5, 1.0)


# ---------------------------------------------------------------- the micro-domain


def test_problems_are_solved_by_their_programs(python: PythonSandbox) -> None:
    for problem in micro.heldout(40):
        result = python.run(problem.program)
        assert result.stdout.strip() == str(problem.answer), problem
    assert {problem.kind for problem in micro.heldout(8)} == {"chain", "letters", "series", "remainder"}


def test_demonstrations_keep_away_from_what_is_held_out_and_slip_as_often_as_they_should() -> None:
    forbidden = {problem.question for problem in micro.heldout()}
    demos = micro.demonstrations(seed=0, n=3000, curriculum_share=0.25, wrong_share=0.5, forbidden=forbidden)
    assert not [d for d in demos if any(q in d.messages[0]["content"] + d.response for q in forbidden)]
    assert sum(demo.role == "curriculum" for demo in demos) == pytest.approx(750, abs=100)
    assert all("".join(demo.pieces) == demo.response for demo in demos)
    again = micro.demonstrations(seed=0, n=10, curriculum_share=0.25, wrong_share=0.5, forbidden=())
    assert again == micro.demonstrations(seed=0, n=10, curriculum_share=0.25, wrong_share=0.5, forbidden=())


def test_no_slip_is_as_frequent_as_the_right_way() -> None:
    rng = random.Random(0)
    for _ in range(20):
        problem = micro.draw(rng)
        seen = [final_answer("".join(micro.slip(problem, rng))) for _ in range(200)]
        wrong = [answer for answer in seen if answer not in (None, str(problem.answer))]
        assert max(map(wrong.count, set(wrong))) < 0.6 * len(seen)


def test_a_bad_held_out_file_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"question": "q", "answer": 3}\n{"question": "q"}\n')
    with pytest.raises(ConfigError, match=r"tasks.jsonl:2: missing field 'answer'"):
        read_heldout(path)
