"""The novelty gate: normal forms, similarities of short specifications, and an index without false negatives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfplay.curriculum.config import NoveltyConfig
from selfplay.curriculum.minhash_index import MinHashIndex, signature
from selfplay.curriculum.text import clause_tokens, jaccard, rename_only, shingles, structural_form, tokens

BASE = "ensures r == 2 * x + y"


def similarity(a: str, b: str, longest: int = 2) -> float:
    return jaccard(shingles(a, longest), shingles(b, longest))


def test_tokens_and_clauses():
    assert tokens("r==>x <= 10 // r\n") == ["r", "==>", "x", "<=", "10"]
    text = "method M(x: int) returns (r: int) // ensures nothing\n  requires x > 0\n  ensures r > x"
    assert clause_tokens(text) == ["requires", "x", ">", "0", "ensures", "r", ">", "x"]
    assert clause_tokens("no clause at all") == ["no", "clause", "at", "all"]
    assert shingles("", 2) == {""}


def test_a_comment_or_another_header_is_no_novelty():
    assert shingles(f"method M(x: int)\n {BASE}", 2) == shingles(f"method Other(x: nat) /* new! */\n {BASE}", 2)


@pytest.mark.parametrize(
    ("other", "low", "high"),
    [
        ("ensures r == 3 * x + y", 0.60, 0.75),  # one constant
        ("ensures r == 2 * x - y", 0.60, 0.75),  # one operator
        ("requires 0 <= x\n ensures r == 2 * x + y", 0.60, 0.75),  # one clause more
        ("ensures r >= x && r >= y", 0.0, 0.30),  # another clause
        ("ensures x <= y ==> r == x\n ensures y < x ==> r == y", 0.0, 0.30),
    ],
)
def test_a_small_change_is_close_and_another_clause_far(other, low, high):
    assert low <= similarity(BASE, other) <= high


def test_one_constant_of_a_longer_specification_is_a_duplicate():
    longer = "requires 0 <= x && 0 <= y\n ensures r >= x && r >= y\n ensures r == x || r == y + {}"
    assert similarity(longer.format(1), longer.format(2)) > 0.72


def test_rename_only_sees_names_and_nothing_else():
    text = "method Max(x: int, y: int) returns (r: int)\n  ensures r >= x && r >= y"
    assert rename_only("method Top(a: int, b: int) returns (m: int) ensures m >= a && m >= b", text)
    assert not rename_only(text.replace("r >= y", "r > y"), text)
    assert not rename_only(text.replace("r >= x && r >= y", "r >= x && r >= x"), text)  # names merged
    assert not rename_only(text.replace("x: int", "x: nat"), text)


def test_structural_form_forgets_names_and_literals():
    assert structural_form("ensures r == 2 * x") == structural_form("ensures out == 17 * value")
    assert structural_form("ensures r == 2 * x") != structural_form("ensures r == 2 + x")


def test_signatures_are_the_same_in_every_process():
    # a change here makes every saved pool unreadable
    assert signature({"a", "b c"}, 128, 1)[:3].tolist() == [2722863001, 569248834, 1183017304]


def perturbed(base: np.ndarray, equal: int, rng: np.random.Generator) -> np.ndarray:
    """A signature that agrees with `base` in exactly `equal` places."""
    out = base.copy()
    places = rng.permutation(len(base))[equal:]
    out[places] ^= rng.integers(1, 2**32, len(places), dtype=np.uint32)
    return out


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.3, 0.55, 0.72, 0.9]))
def test_the_index_never_misses_a_pair_above_its_threshold(seed, threshold):
    rng = np.random.default_rng(seed)
    index = MinHashIndex(threshold, 128)
    base = rng.integers(0, 2**32, 128, dtype=np.uint32)
    least = int(np.floor(threshold * 128)) + 1  # the smallest count above the threshold: the hardest pair to see
    for equal in (least, 128, least - 20):
        index.add(perturbed(base, equal, rng))
    rows, sims = index.similar(base)
    assert rows[:2].tolist() == [1, 0]
    assert sims[:2].tolist() == [1.0, least / 128]


def test_wanted_rows_come_on_top_of_those_above_the_threshold():
    rng = np.random.default_rng(0)
    index = MinHashIndex(0.72, 128)
    base = rng.integers(0, 2**32, 128, dtype=np.uint32)
    for equal in [100, 95, *range(30, 90, 2)]:
        index.add(perturbed(base, equal, rng))
    strict, _ = index.similar(base)
    more, sims = index.similar(base, wanted=20)
    assert set(strict.tolist()) < set(more.tolist())
    assert len(more) <= 20
    assert more[:2].tolist() == [0, 1]
    assert (np.diff(sims) <= 0).all()


def test_banding_of_the_defaults():
    index = MinHashIndex(NoveltyConfig().max_pool_sim, 128)
    assert (index.band_rows, index.bands, index.least_hits) == (3, 42, 7)


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 200])
def test_bulk_insertion_equals_one_by_one(rows):
    rng = np.random.default_rng(0)
    base = rng.integers(0, 2**32, 128, dtype=np.uint32)
    near = [perturbed(base, int(rng.integers(60, 129)), rng) for _ in range(rows)]
    sigs = np.array(near, dtype=np.uint32).reshape(rows, 128)
    single, bulk = MinHashIndex(0.72, 128), MinHashIndex(0.72, 128)
    for sig in sigs:
        single.add(sig)
    bulk.add_all(sigs)
    extra = perturbed(base, 100, rng)
    assert single.add(extra) == bulk.add(extra) == rows
    for sig in [*sigs, extra]:
        for a, b in zip(single.similar(sig), bulk.similar(sig), strict=True):
            assert a.tolist() == b.tolist()


def test_a_removed_row_is_not_found():
    index = MinHashIndex(0.72, 128)
    sig = signature(shingles(BASE, 2), 128, 1)
    index.add(sig)
    index.remove(0)
    assert index.similar(sig)[0].tolist() == []


def test_minhash_estimates_the_exact_similarity():
    rng = np.random.default_rng(3)
    words = [f"w{i}" for i in range(300)]
    errors = []
    for _ in range(40):
        a, b = (set(rng.choice(words, 150, replace=False).tolist()) for _ in range(2))
        estimate = float((signature(a, 128, 1) == signature(b, 128, 1)).mean())
        errors.append(estimate - jaccard(a, b))
    assert abs(np.mean(errors)) < 0.03  # unbiased
    assert np.std(errors) < 0.06  # sqrt(J (1 - J) / 128) is 0.042 for J = 1/3


def test_settings_out_of_range_are_one_line():
    with pytest.raises(ValueError, match=r"^max_pool_sim=1\.2 is out of range; allowed: 0\.0 to 1\.0$"):
        NoveltyConfig(max_pool_sim=1.2).check()
    with pytest.raises(ValueError, match="shingle=0"):
        NoveltyConfig(shingle=0).check()
