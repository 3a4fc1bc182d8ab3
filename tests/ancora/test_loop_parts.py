"""The parts of the loop between engine and curriculum, on rows made by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from selfplay.algos import supervised
from selfplay.algos.ancora.advantages import Advantages
from selfplay.algos.ancora.curriculum_step import as_used, take_in, task_of
from selfplay.algos.ancora.data import Data, Demonstrations, check_lengths, load_data, read_demos
from selfplay.algos.ancora.prompts import Message, longest_prompt, solver_messages
from selfplay.config.errors import ConfigError
from selfplay.config.load import load_config
from selfplay.curriculum.config import CurriculumConfig, NoveltyConfig
from selfplay.curriculum.curriculum import Curriculum
from selfplay.curriculum.roots import Root
from selfplay.objectives.config import BalanceConfig
from selfplay.sandbox import dafny_text, verus_text


@dataclass
class Row:
    role: str
    group: str
    reward: float
    tokens: int
    record: dict[str, Any]


def proposal(group: str, reward: float, tokens: int = 10, verdict: str = "accepted") -> Row:
    return Row("proposer", group, reward, tokens, {"verdict": verdict})


def attempt(group: str, reward: float, tokens: int = 5) -> Row:
    return Row("solver", group, reward, tokens, {"verdict": "verified" if reward else "refuted"})


def test_advantages_by_hand() -> None:
    """Two proposals, one with two attempts of which one is right.

    Proposer group: rewards 1, 0, mean 1/2: advantages 1, -1. T_Q = 20, T_S = 10, so scale_Q = 30/40, scale_S = 30/20;
    with w_Q = 3/8 a proposal's advantage is +-1 * 0.75 * 0.375, an attempt's +-1 * 1.5.
    """
    rows = [proposal("a", 1.0), attempt("a/0", 1.0), attempt("a/0", 0.0), proposal("a", 0.0, verdict="rejected")]
    found = Advantages(BalanceConfig(), "none", "zero_reward")(rows)
    assert found == pytest.approx([0.28125, 1.5, -1.5, -0.28125], rel=1e-4)


def test_a_frozen_branch_has_no_advantage_and_a_dropped_proposal_none() -> None:
    rows = [proposal("a", 1.0), proposal("a", 0.0), proposal("a", 0.0, verdict="rejected"), attempt("a/0", 1.0)]
    frozen = Advantages(BalanceConfig(), "proposer", "zero_reward")(rows)
    assert frozen[:3] == [0.0, 0.0, 0.0]
    dropped = Advantages(BalanceConfig(), "none", "drop")(rows)
    assert dropped[2] == 0.0
    assert dropped[0] == pytest.approx(-dropped[1])  # the mean is over the two that stayed


def test_no_accepted_proposal_is_no_error() -> None:
    rows = [proposal("a", 0.0, verdict="rejected"), proposal("a", 0.0, verdict="rejected")]
    assert Advantages(BalanceConfig(), "none", "zero_reward")(rows) == [0.0, 0.0]


def test_a_solved_and_new_proposal_becomes_a_node() -> None:
    root = Root("r", "method M(x: int) returns (r: int)\n  ensures r == x + 1")
    curriculum = Curriculum([root], CurriculumConfig(crossover=0.0), NoveltyConfig(), seed=0)
    seeds = curriculum.select(1, 2)
    task = task_of(seeds[0], curriculum)
    assert task.sessions == 2
    child = "method M(x: int, y: int) returns (r: int)\n  ensures x < r\n  ensures y < r"
    identity = task.payload["seed_id"]

    def row(session: int, **values: Any) -> dict[str, Any]:
        return {"key": f"s000001x0000_{session}_0", "role": "proposer", "group": "s000001x0000", **values}

    rows = [
        row(0, reward=1.0, spec=child, parents=[identity], solved=1, attempts=2),
        {
            "key": "s000001x0000_0_1",
            "role": "solver",
            "group": "s000001x0000/0",
            "reward": 0.0,
            "answer": "{ r := x; }",
        },
        {"key": "s000001x0000_0_2", "role": "solver", "group": "s000001x0000/0", "reward": 1.0, "answer": "{ good }"},
        row(1, reward=0.0, spec="", parents=[identity], solved=0, attempts=0),
    ]
    counts = take_in(curriculum, seeds, rows)
    assert counts["pool/admitted"] == 1
    assert len(curriculum) == 2
    node = next(n for n in (curriculum.node(i) for i in curriculum.dag.row_of) if not n.is_root)
    assert (node.text, node.answer, node.parents) == (child, "{ good }", (identity,))
    assert curriculum.pass_rate(node.id) == pytest.approx(0.5)


def test_a_second_parent_that_did_not_fit_the_prompt_earns_nothing() -> None:
    roots = [
        Root(n, f"method {n}(x: int) returns (r: int)\n  ensures r == x {op}") for n, op in (("A", "+ 1"), ("B", "* 7"))
    ]
    curriculum = Curriculum(roots, CurriculumConfig(crossover=1.0), NoveltyConfig(), seed=0)
    (seed,) = curriculum.select(1, 2)
    other = seed.second_parents[0]
    assert other is not None
    base = {"reward": 1.0, "solved": 0, "attempts": 0, "spec": "", "role": "proposer", "group": "s1x0000"}
    rows = [
        {**base, "key": "s1x0000_0_0", "parents": [seed.node_id, other]},
        {**base, "key": "s1x0000_1_0", "parents": [seed.node_id]},
    ]
    assert as_used(seed, rows).second_parents == (other, None)
    visits = {
        row: curriculum.dag.statistics.visits[row] for row in map(curriculum.dag.row_of.get, (seed.node_id, other))
    }
    take_in(curriculum, [seed], rows)
    seen = [curriculum.dag.statistics.visits[row] - before for row, before in visits.items()]
    assert seen == pytest.approx([1.0, 0.5], rel=0.02)  # the discount of the step aside


def test_warm_up_batches_cover_the_data_and_repeat() -> None:
    pairs = [([i], [i]) for i in range(18)]

    def batch(step: int) -> list[supervised.Pair]:
        return supervised.batch_of(pairs, step, 4, 0)

    epoch = [pair for step in range(4) for pair in batch(step)]
    assert len({pair[0][0] for pair in epoch}) == 16  # four whole batches of a permutation
    assert batch(5) == batch(5)
    assert batch(5) != batch(1)


def test_warm_up_learning_rate() -> None:
    assert supervised.learning_rate(0, 100, 1.0) == pytest.approx(0.2)  # rises over 5 steps
    assert supervised.learning_rate(5, 100, 1.0) == pytest.approx(1.0)
    assert supervised.learning_rate(99, 100, 1.0) == pytest.approx(0.1, abs=0.01)


def test_a_short_schedule_is_a_schedule_too() -> None:
    """Eight supervised steps get eight learning rates; a chunk of several would all run at the peak."""

    class Recorder:
        def __init__(self) -> None:
            self.rates: list[float] = []

        def sft(self, pairs: list[supervised.Pair], batch_size: int, lr: float) -> list[float]:
            self.rates += [lr] * (len(pairs) // batch_size)
            return [0.0]

    recorder, pairs = Recorder(), [([i], [i]) for i in range(16)]
    supervised.Supervised(8, 2, 1.0, 0).train(recorder, pairs, 0, lambda done, loss: None)  # type: ignore[arg-type]
    assert recorder.rates == pytest.approx([supervised.learning_rate(step, 8, 1.0) for step in range(8)])
    assert recorder.rates[-1] < 0.2


def test_demonstrations_of_a_file_are_asked_in_the_prover_s_language(tmp_path: Path) -> None:
    path = tmp_path / "demos.jsonl"
    path.write_text('{"role": "solver", "spec": "fn f()", "response": "x"}\n')
    dafny, verus = (read_demos(path, "full", language)[0].messages for language in ("Dafny", "Verus"))
    assert dafny != verus
    assert verus == solver_messages("fn f()", style="full", language="Verus")
    found = {
        load_data(load_config([f"algo.warmup.demos={path}", f"backbone.prompts={style}"])).demonstrations.key
        for style in ("compact", "full")
    }
    assert len(found) == 2  # the key of what is cached


def test_words_of_the_language_are_no_names() -> None:
    """What makes a held-out specification a root in other names."""
    for form, texts in (
        (dafny_text.normal_form, [f"method M(a: set<int>)\n  ensures {q} k :: k in a" for q in ("forall", "exists")]),
        (
            verus_text.normal_form,
            [f"fn f(a: u8) -> (r: u8)\n    ensures {q}|i: u8| a > i," for q in ("forall", "exists")],
        ),
        (verus_text.normal_form, [f"fn f(a: {t}) -> (r: {t})\n    ensures r == a," for t in ("u32", "i64")]),
        (verus_text.normal_form, [f"fn f(a: u8) -> (r: u8)\n    ensures r == a.{m}(3)," for m in ("min", "max")]),
    ):
        assert form(texts[0]) != form(texts[1])


def test_a_held_out_specification_is_no_root_in_other_names(tmp_path: Path) -> None:
    spec = "method M(x: int) returns (r: int)\n  ensures r == (if x > 0 then x else 0)"
    for name, text in (("root", spec), ("renamed", spec.replace("x", "y")), ("other", spec.replace("> 0", ">= 1"))):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"id": name, "spec": text}) + "\n")
    roots, held = (f"algo.roots={tmp_path}/root.jsonl", f"algo.eval.heldout={tmp_path}/")
    load_data(load_config([roots, f"{held}other.jsonl"]))
    with pytest.raises(ConfigError, match="'renamed' is also a root"):
        load_data(load_config([roots, f"{held}renamed.jsonl"]))


def test_further_suites_have_names_of_the_user_s(tmp_path: Path) -> None:
    path = tmp_path / "more.jsonl"
    path.write_text(GOOD)
    for form in ("algo.eval.more.mine", "+algo.eval.more.mine"):
        data = load_data(load_config([f"{form}={path}"]))
        assert list(data.suites) == ["heldout", "mine"]
    with pytest.raises(ConfigError, match=r"algo\.eval\.mor\.mine"):
        load_config([f"algo.eval.mor.mine={path}"])


GOOD = '{"id": "a", "spec": "method M(x: int) returns (r: int)\\n  ensures r == x + 31"}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"roots\.jsonl: holds no root specification"),
        (GOOD + "{nonsense", r"roots\.jsonl:2: not JSON"),
        ('{"id": "a"}\n', r"roots\.jsonl:1: missing field 'spec'"),
        (GOOD + GOOD.replace('"a"', '"b"'), r"roots\.jsonl:2: spec repeats that of line 1"),
        (
            GOOD + '{"id": "b", "spec": "method M(x: int) returns (r: int)\\n  ensures true"}\n',
            r"roots\.jsonl:2: .*vacuous",
        ),
        (
            GOOD + '{"id": "b", "spec": "method M(x: int) returns (r: int) { }"}\n',
            r"roots\.jsonl:2: spec of 'b' is refused",
        ),
    ],
)
def test_bad_root_files_are_one_line_with_file_and_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "roots.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_data(load_config([f"algo.roots={path}"]))
    assert "\n" not in str(caught.value)


def test_a_root_among_the_held_out_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "same.jsonl"
    path.write_text(GOOD)
    with pytest.raises(ConfigError, match="'a' is also a root"):
        load_data(load_config([f"algo.roots={path}", f"algo.eval.heldout={path}"]))


def test_a_specification_without_room_is_named(tmp_path: Path) -> None:
    """Roots and held-out ones as the proposer's seeds too, which takes more; other suites are only to be solved."""

    def render(messages: Sequence[Message]) -> list[int]:
        return [0] * sum(len(message["content"]) for message in messages)

    path = tmp_path / "more.jsonl"
    path.write_text(GOOD)
    spec, asked = json.loads(GOOD)["spec"], {"style": "full", "language": "Dafny"}
    longest, solve = longest_prompt(spec, render, **asked), len(render(solver_messages(spec, **asked)))
    assert longest > solve
    root = Root("a", spec)
    nothing = Demonstrations("", 0, list)
    for data, room in [
        (Data([root], {"heldout": []}, nothing), longest),
        (Data([], {"heldout": [root]}, nothing), longest),
        (Data([], {"heldout": [], "other": [root]}, nothing), solve),
    ]:
        check_lengths(data, render, room, asked)
        with pytest.raises(ConfigError, match=f"{room - 1} is not allowed; .* 'a' takes {room}"):
            check_lengths(data, render, room - 1, asked)
