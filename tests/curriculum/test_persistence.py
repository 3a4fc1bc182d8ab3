"""Saving and loading: exact, atomic, and loud about damage."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from selfplay.curriculum import persistence
from selfplay.curriculum.config import CurriculumConfig, NoveltyConfig
from selfplay.curriculum.curriculum import Curriculum
from selfplay.curriculum.node import Candidate
from selfplay.curriculum.persistence import PoolError


def play(pool, spec, steps, start=0):
    """Some steps of the loop with scripted proposals, pruning included."""
    for step in range(start, start + steps):
        rng = np.random.default_rng(step)
        for seed in pool.select(4, 4):
            pool.record(seed, rng.integers(0, 2, 4).astype(float).tolist(), rng.random(3).tolist())
            left, right, number = [*rng.choice(["x", "y", "r", "x * y"], 2).tolist(), int(rng.integers(100))]
            text = spec(f"requires {left} < {number}\n  ensures {right} != {left} + {step} || r == {number * 7}")
            second = tuple(s for s in seed.second_parents[-1:] if s is not None)
            pool.admit(Candidate(text, (seed.node_id, *second), "{ r := 1; }", float(rng.uniform(0.1, 1))))
        if step == 3:  # make the newest node unsolvable, so that a dead row is saved too
            row = max(pool.dag.row_of.values())
            pool.dag.statistics.pass_sum[row] = 0.0
            pool.dag.statistics.positive_count -= 1
            for _ in range(25):
                pool.dag.back_up((row,), 0.0)
            assert pool.step_end() != []
        else:
            pool.step_end()


@pytest.fixture
def pool(make, spec):
    curriculum = make()
    play(curriculum, spec, 8)
    assert len(curriculum) > 10
    return curriculum


def load(folder, **changes):
    return Curriculum.load(folder, CurriculumConfig(), replace(NoveltyConfig(), **changes))


def test_a_reloaded_pool_is_equal_and_goes_on_equally(pool, spec, tmp_path):
    pool.save(tmp_path)
    again = load(tmp_path)
    assert again.pool_hash() == pool.pool_hash()
    assert None in again.dag.nodes  # the pruned row
    play(pool, spec, 6, start=8)
    play(again, spec, 6, start=8)
    assert again.pool_hash() == pool.pool_hash()
    assert again.outcomes == pool.outcomes


def test_saving_in_the_middle_of_a_step_keeps_what_is_pending(pool, spec, tmp_path):
    for seed in pool.select(2, 4):
        pool.record(seed, [1.0, 0.0, 0.0, 0.0], [0.5])
    pool.admit(Candidate(spec("requires y == 17\n  ensures r > 5 ==> x != r"), (pool.dag.node(0).id,), "{ }", 0.5))
    pool.save(tmp_path)
    again = load(tmp_path)
    assert again.admitted_now == pool.admitted_now != []
    pool.step_end()
    again.step_end()
    assert again.pool_hash() == pool.pool_hash()
    assert again.ability == pool.ability


def test_the_hash_sees_every_kind_of_change(pool):
    seen = {pool.pool_hash()}
    changes = [
        lambda: setattr(pool, "ability", 0.123),
        lambda: pool.rng.random(),
        lambda: pool.dag.back_up((0,), 0.5),
        lambda: pool.dag.statistics.observe_pass_rate(0, 0.5),
        lambda: setattr(pool.dag.node(1), "answer", "{ }"),
        lambda: pool.dag.edges[next(iter(pool.dag.edges))].add(0),
        lambda: pool.outcomes.update(["admitted"]),
    ]
    for number, change in enumerate(changes, 2):
        change()
        seen.add(pool.pool_hash())
        assert len(seen) == number


def test_the_hash_does_not_see_the_order_of_dictionaries(pool):
    before = pool.pool_hash()
    pool.dag.edges = dict(reversed(pool.dag.edges.items()))
    pool.dag.row_of = dict(reversed(pool.dag.row_of.items()))
    pool.outcomes = type(pool.outcomes)(dict(reversed(pool.outcomes.items())))
    assert pool.pool_hash() == before


@pytest.mark.parametrize("survives", range(3))
def test_a_kill_between_any_two_writes_leaves_the_old_pool(pool, tmp_path, monkeypatch, survives):
    pool.save(tmp_path)
    before = pool.pool_hash()
    pool.dag.back_up((0,), 1.0)
    done = 0
    replace_file = os.replace

    def replace_until_killed(source, target):
        nonlocal done
        if done == survives:
            raise KeyboardInterrupt
        done += 1
        replace_file(source, target)

    monkeypatch.setattr(persistence.os, "replace", replace_until_killed)
    with pytest.raises(KeyboardInterrupt):
        pool.save(tmp_path)
    monkeypatch.undo()
    assert load(tmp_path).pool_hash() == before
    pool.save(tmp_path)
    assert load(tmp_path).pool_hash() == pool.pool_hash()
    assert sorted(f.name for f in tmp_path.iterdir()) == ["arrays.2.npz", "nodes.2.jsonl", "pool.json"]


def damage_line(path, number, change):
    lines = path.read_text().splitlines()
    lines[number - 1] = change(lines[number - 1])
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line[:-5], "not JSON"),
        (lambda line: "[]", "expected an object with the fields"),
        (lambda line: line.replace("ensures", "requires", 1), "does not belong to the text"),
        (lambda line: json.dumps(json.loads(line) | {"depth": "deep"}), "wrong type"),
        (lambda line: json.dumps(json.loads(line) | {"parents": ["feedbeef"]}), "parent feedbeef does not come before"),
        (lambda line: json.dumps(json.loads(line) | {"answer": None}), "must have a verified answer"),
    ],
)
def test_a_corrupt_node_names_file_and_line(pool, tmp_path, change, message):
    pool.save(tmp_path)
    damage_line(tmp_path / "nodes.1.jsonl", 6, change)
    with pytest.raises(PoolError, match=message) as error:
        load(tmp_path)
    assert str(error.value).startswith(f"{tmp_path / 'nodes.1.jsonl'}:6: ")
    assert "\n" not in str(error.value)


def test_other_damage_names_the_file(pool, tmp_path):
    pool.save(tmp_path)
    nodes, arrays, manifest = (tmp_path / n for n in ("nodes.1.jsonl", "arrays.1.npz", "pool.json"))
    kept = {p: p.read_bytes() for p in (nodes, arrays, manifest)}
    cases = [
        (nodes, kept[nodes].replace(b"{ r := 1; }", b"{ r := 2; }", 1), "nodes.1.jsonl: was altered"),
        (nodes, b"".join(kept[nodes].splitlines(True)[:-1]), r"nodes.1.jsonl:\d+: holds"),
        (arrays, kept[arrays][:-40], "arrays.1.npz: was altered"),
        (manifest, b"{", "pool.json: not JSON"),
        (manifest, b"[]", "pool.json: expected an object"),
        (manifest, kept[manifest].replace(b'"format": 1', b'"format": 99'), "format 99 is not supported"),
        (manifest, kept[manifest].replace(b'"rows"', b'"cows"'), "incomplete manifest"),
        (manifest, kept[manifest].replace(b'"ability"', b'"agility"'), "lacks 'ability'"),
    ]
    for path, content, message in cases:
        path.write_bytes(content)
        with pytest.raises(PoolError, match=message):
            load(tmp_path)
        path.write_bytes(kept[path])
    arrays.unlink()
    with pytest.raises(PoolError, match=r"arrays\.1\.npz: cannot be read"):
        load(tmp_path)
    with pytest.raises(PoolError, match=r"pool\.json: cannot be read"):
        load(tmp_path / "nowhere")


def test_signatures_of_other_settings_are_refused(pool, tmp_path):
    pool.save(tmp_path)
    with pytest.raises(PoolError, match=r"novelty\.shingle=2, now it is 3"):
        load(tmp_path, shingle=3)
    assert len(load(tmp_path, max_pool_sim=0.6)) == len(pool)  # limits may change


def test_reset_pass_rate_forgets_the_old_solver(pool, tmp_path):
    pool.save(tmp_path)
    fresh = Curriculum.load(tmp_path, CurriculumConfig(), NoveltyConfig(), reset_pass_rate=True)
    assert fresh.ability is None
    assert all(fresh.pass_rate(i) is None for i in fresh.dag.row_of)
    assert fresh.dag.statistics.ratchet.tolist() == load(tmp_path).dag.statistics.ratchet.tolist()
    assert fresh.step_end() == []  # nothing observed is no failure
