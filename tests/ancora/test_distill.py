"""What a round of the warm-up keeps of its rollouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfplay.algos.ancora.collapse import RATE, WINDOW, before_collapse, collapsed
from selfplay.algos.ancora.distill import HarvestFile, deduplicated, harvest
from selfplay.algos.ancora.evaluation import score
from selfplay.algos.ancora.position import Position, Stage
from selfplay.runs.checkpoints import CheckpointStore
from selfplay.runs.files import RunDirError

END = 2


def solver(reward: float, ids: list[int], spec: str = "s", answer: str = "a") -> dict[str, Any]:
    return {"role": "solver", "reward": reward, "spec": spec, "answer": answer, "prompt_ids": [7], "response_ids": ids}


def proposer(solved: int, ids: list[int], reward: float = 0.0, spec: str = "p") -> dict[str, Any]:
    return {
        "role": "proposer",
        "reward": reward,
        "solved": solved,
        "spec": spec,
        "prompt_ids": [8],
        "response_ids": ids,
    }


def test_only_verified_and_finished_rows_are_kept() -> None:
    rows = [
        solver(1.0, [5, END]),
        solver(0.0, [5, END]),
        solver(1.0, [5, 6]),  # cut off
        proposer(3, [6, END]),  # solved, although it earned nothing in the band
        proposer(0, [6, END]),
        proposer(1, [6], reward=1.0),
    ]
    kept = harvest(rows, 4, END)
    assert [(k["role"], k["text"], k["response_ids"], k["step"]) for k in kept] == [
        ("solver", "s\na", [5, END], 4),
        ("proposer", "p", [6, END], 4),
    ]


def item(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "text": text, "step": 0}


def test_repeats_go_and_near_ones_stay_or_go_by_the_limit() -> None:
    a = "method M(x: int) returns (r: int)\n  ensures r == x + 31\n{\n  r := x + 31;\n}"
    b = a.replace("31", "32")
    items = [item("solver", a), item("solver", a + " "), item("solver", b), item("proposer", a)]
    assert deduplicated(items, 0.9) == [items[0], items[2], items[3]]
    assert deduplicated(items, 0.3) == [items[0], items[3]]


@given(st.lists(st.text(alphabet="xyz+ ", max_size=12), max_size=12))
def test_deduplication_is_idempotent_and_keeps_one_of_each(texts: list[str]) -> None:
    items = [item("solver", text) for text in texts]
    once = deduplicated(items, 0.8)
    assert deduplicated(once, 0.8) == once
    assert bool(once) == bool(items)
    assert once[:1] == items[:1]


def test_a_step_that_is_done_again_replaces_what_it_wrote(tmp_path: Path) -> None:
    file = HarvestFile(tmp_path / "warmup" / "round_1.jsonl")
    assert file.read() == []
    file.replace_from(0, [{"step": 0, "n": 1}])
    file.replace_from(1, [{"step": 1, "n": 2}, {"step": 1, "n": 3}])
    file.replace_from(1, [{"step": 1, "n": 4}])
    assert [row["n"] for row in file.read()] == [1, 4]
    file.path.write_text('{"step": 0}\n{oops\n')
    with pytest.raises(RunDirError, match=r"round_1\.jsonl:2: not JSON"):
        file.read()


def test_a_position_survives_json() -> None:
    place = Position(Stage.COLLECT, 2, 3, 0, 10, [0.5], 1, [{"round": 0}])
    assert Position.from_dict(place.to_dict()) == place


def test_a_collapse_is_a_whole_window_below_the_rate() -> None:
    low = [RATE - 0.01] * WINDOW
    assert collapsed(low)
    assert not collapsed(low[1:])
    assert not collapsed([*low[:-1], RATE])
    assert collapsed([0.9, *low])


def test_a_rollback_finds_a_checkpoint_from_before_the_window(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2, landmark_every=WINDOW)
    for step in range(76):
        with store.stage(step) as folder:
            (folder / "x").touch()
    assert [c.step for c in store.all()] == [20, 40, 60, 74, 75]
    healthy = before_collapse(store, 75)
    assert healthy is not None
    assert healthy.step == 40  # 60 lies within steps 56 to 75
    store.drop_after(40)
    assert [c.step for c in store.all()] == [20, 40]
    assert before_collapse(store, 30) is None


def test_the_score_of_a_suite() -> None:
    result = score([4, 0, 2, 2], 4)
    assert result.pass_at_1 == pytest.approx(0.5)
    assert result.n == 16
    assert result.pass_at_k == {"1": pytest.approx(0.5)}
    assert result.by_problem is not None
    low, high = result.by_problem
    assert low < result.interval[0] < 0.5 < result.interval[1] < high  # four specifications say less than 16 attempts
    assert set(score([3, 10], 10).pass_at_k) == {"1", "5", "10"}
    assert score([3, 10], 10).pass_at_k["5"] == pytest.approx((1 - 21 / 252 + 1) / 2)  # C(7,5)/C(10,5) = 21/252
