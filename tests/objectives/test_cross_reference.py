"""Group resolution, ADPO with the cross-reference advantage, the curriculum's reward: by hand, and as properties."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfplay.objectives.cross_reference import (
    AdpoConfig,
    clip_high,
    effective_variance,
    scale,
    standardised,
    structure,
    task_advantages,
)
from selfplay.objectives.curriculum_reward import CurriculumRewardConfig, task_reward
from selfplay.objectives.voting import Resolution, matches, resolve

ANSWERS = st.lists(st.sampled_from(["1", "2", "3", None]), min_size=2, max_size=10)
NOBODY = Resolution(None, 0.0)


# ---------------------------------------------------------------- resolution


@pytest.mark.parametrize(
    ("answers", "label", "share"),
    [
        (["5", "5", "5", "7", None, "7", "5", None], "5", 0.5),  # invalid ones count in G
        (["5", "7", "5", "7"], None, 0.0),  # a tie
        (["5", "7", "9", None], None, 0.0),  # a tie of ones
        ([None, None], None, 0.0),
        (["5", None, None, None, None, None, None, None], "5", 0.125),
        (["5"] * 8, "5", 1.0),
    ],
)
def test_resolution_by_hand(answers: list[str | None], label: str | None, share: float) -> None:
    assert resolve(answers) == Resolution(label, share)


def test_an_empty_group_is_an_error() -> None:
    with pytest.raises(ValueError, match="one rollout"):
        resolve([])


@given(ANSWERS, st.randoms())
def test_resolution_does_not_depend_on_the_order(answers: list[str | None], rng: random.Random) -> None:
    shuffled = rng.sample(answers, len(answers))
    assert resolve(shuffled) == resolve(answers)


@given(ANSWERS)
def test_a_label_has_strictly_the_most_votes(answers: list[str | None]) -> None:
    found = resolve(answers)
    counts = {answer: answers.count(answer) for answer in answers if answer is not None}
    best = max(counts.values(), default=0)
    winners = [answer for answer, count in counts.items() if count == best]
    assert found.resolved == (len(winners) == 1)
    if found.resolved:
        assert (found.label, found.share) == (winners[0], best / len(answers))


# ---------------------------------------------------------------- ADPO


@pytest.mark.parametrize(
    ("p", "s", "bound"),
    [(0.0, 0.6, 0.3), (0.3, 0.6, 0.3), (0.55, 0.8, 0.25), (0.8, 1.0, 0.2), (1.0, 1.0, 0.2), (0.4, 0.68, 0.28)],
)
def test_scale_and_clip_bound_by_hand(p: float, s: float, bound: float) -> None:
    assert scale(p, AdpoConfig()) == pytest.approx(s)
    assert clip_high(p, AdpoConfig()) == pytest.approx(bound)


def test_advantages_by_hand() -> None:
    # G = 4: three say 5, one says 7; the anchor says 7. Mean 3/4, sample deviation 1/2; for the anchor mean 1/4, 1/2.
    task = task_advantages(["5", "5", "5", "7"], Resolution("7", 0.5), AdpoConfig())
    np.testing.assert_allclose(task.current, [0.5, 0.5, 0.5, -1.5], rtol=1e-5)
    np.testing.assert_allclose(task.historical, [-0.5, -0.5, -0.5, 1.5], rtol=1e-5)
    s = 0.6 + 0.4 * 0.9  # p = 0.75
    np.testing.assert_allclose(task.values, s * np.array([0.2, 0.2, 0.2, -0.6]), rtol=1e-5)
    assert task.clip_high == pytest.approx(0.2 + 0.1 * 0.1)
    assert structure(task) == "other"  # they point in opposite directions


def test_an_anchor_that_agrees_adds_its_share() -> None:
    task = task_advantages(["5", "5", "5", "7"], Resolution("5", 1.0), AdpoConfig(alpha=0.6))
    np.testing.assert_allclose(task.values, 0.96 * 1.6 * task.current, rtol=1e-6)
    assert structure(task) == "collinear"


def test_an_anchor_whose_answer_nobody_gives_adds_nothing() -> None:
    task = task_advantages(["5", "5", "5", "7"], Resolution("9", 1.0), AdpoConfig())
    assert structure(task) == "zero"
    np.testing.assert_allclose(task.values, 0.96 * task.current)


def test_three_answers_are_not_collinear() -> None:
    assert structure(task_advantages(["5", "5", "7", "9"], Resolution("7", 1.0), AdpoConfig())) == "other"


def test_the_other_reading_is_the_difference_of_the_majorities() -> None:
    config = AdpoConfig(historical="majority_difference", historical_norm="center", alpha=1.0)
    task = task_advantages(["5", "5", "5", "7"], Resolution("7", 0.5), config)
    np.testing.assert_allclose(task.historical, np.array([1, 1, 1, -1]) - 0.5)
    agreed = task_advantages(["5", "5", "5", "7"], Resolution("5", 0.5), config)
    assert not agreed.historical.any()


@given(ANSWERS, ANSWERS)
def test_no_alpha_is_agent0(answers: list[str | None], anchor: list[str | None]) -> None:
    """Agent0's ADPO, written down on its own: s(p) times the standardised agreement with the majority."""
    task = task_advantages(answers, resolve(anchor), AdpoConfig(alpha=0.0))
    counts = sorted(((answers.count(a), a) for a in set(answers) if a is not None), reverse=True)
    if not counts or (len(counts) > 1 and counts[0][0] == counts[1][0]):
        assert not task.trained
        assert not task.values.any()
        return
    p, agree = counts[0][0] / len(answers), np.array([float(a == counts[0][1]) for a in answers])
    s = 0.6 + 0.4 * min(1.0, max(0.0, (p - 0.3) / 0.5))
    expected = s * (agree - agree.mean()) / (agree.std(ddof=1) + 1e-6)
    np.testing.assert_allclose(task.values, expected, atol=1e-12)
    without = task_advantages(answers, resolve(anchor), AdpoConfig(historical="none"))
    np.testing.assert_array_equal(task.values, without.values)


@given(
    st.sampled_from(["1", "2"]),
    st.integers(2, 10),
    ANSWERS,
    st.sampled_from(["anchor_majority", "majority_difference"]),
)
def test_both_terms_vanish_under_consensus(answer: str, g: int, anchor: list[str | None], reading: str) -> None:
    task = task_advantages([answer] * g, resolve(anchor), AdpoConfig(historical=reading))
    assert task.trained
    assert not task.values.any()
    assert effective_variance([task]) == 0.0


@given(ANSWERS, ANSWERS, st.randoms())
def test_advantages_move_with_their_rollouts(
    answers: list[str | None], anchor: list[str | None], rng: random.Random
) -> None:
    order = rng.sample(range(len(answers)), len(answers))
    plain = task_advantages(answers, resolve(anchor), AdpoConfig()).values
    moved = task_advantages([answers[i] for i in order], resolve(anchor), AdpoConfig()).values
    np.testing.assert_allclose(moved, plain[order], atol=1e-12)


@given(ANSWERS, ANSWERS)
def test_advantages_sum_to_nothing(answers: list[str | None], anchor: list[str | None]) -> None:
    assert task_advantages(answers, resolve(anchor), AdpoConfig()).values.sum() == pytest.approx(0.0, abs=1e-9)


@given(ANSWERS)
def test_an_unresolved_anchor_leaves_the_current_term(answers: list[str | None]) -> None:
    task = task_advantages(answers, NOBODY, AdpoConfig())
    np.testing.assert_array_equal(task.values, task_advantages(answers, NOBODY, AdpoConfig(alpha=0)).values)


def test_an_invalid_answer_is_worth_what_a_wrong_one_is() -> None:
    wrong = task_advantages(["5", "5", "7"], Resolution("5", 1.0), AdpoConfig())
    invalid = task_advantages(["5", "5", None], Resolution("5", 1.0), AdpoConfig())
    np.testing.assert_array_equal(wrong.values, invalid.values)


def test_answering_nothing_never_pays() -> None:
    """The cheat: invalid answers cannot become a majority, whatever their number."""
    assert matches([None, None, "5"], None) == [0.0, 0.0, 0.0]
    task = task_advantages([None] * 7 + ["5"], Resolution("5", 1.0), AdpoConfig())
    assert (task.values[:7] < 0).all()
    assert task.values[7] > 0


def test_a_group_of_one_has_no_advantage() -> None:
    assert standardised([1.0]).tolist() == [0.0]


def test_effective_variance_is_the_mean_over_groups() -> None:
    split = task_advantages(["5", "5", "5", "7"], NOBODY, AdpoConfig())
    same = task_advantages(["5"] * 4, NOBODY, AdpoConfig())
    assert effective_variance([split, same]) == pytest.approx(split.values.var() / 2)
    assert effective_variance([]) == 0.0


# ---------------------------------------------------------------- the curriculum's reward


@pytest.mark.parametrize(
    ("current", "anchor", "calls", "share", "value"),
    [
        (Resolution("5", 0.5), Resolution("5", 0.5), 0.0, 1 / 64, 1 - 1 / 64),
        (Resolution("5", 0.75), Resolution("7", 0.25), 2.0, 0.125, 0.5 + 0.1 + 0.4 * 0.5 - 0.125),
        (Resolution("5", 0.25), Resolution("7", 0.75), 9.0, 0.0625, 0.5 + 0.2 - 0.0625),  # no gap below 0, 4 calls
        (Resolution("5", 1.0), Resolution("5", 1.0), 0.0, 0.5, 0.0),  # not below 0
        (Resolution("5", 0.75), NOBODY, 0.0, 0.0625, 0.5 - 0.0625),  # an unresolved anchor has no gap
        (NOBODY, Resolution("5", 0.75), 2.0, 0.0625, 0.1 - 0.0625),  # an unresolved task: the other terms stay
    ],
)
def test_reward_by_hand(current: Resolution, anchor: Resolution, calls: float, share: float, value: float) -> None:
    assert task_reward(current, anchor, calls, share, CurriculumRewardConfig()).value == pytest.approx(value)


@pytest.mark.parametrize("bad", [{"alpha": -1}, {"historical": "x"}, {"p_low": 0.9}, {"s_min": 2}, {"clip": 0}])
def test_bad_settings_name_the_key(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(bad))}: "):
        AdpoConfig(**bad).check()  # type: ignore[arg-type]
