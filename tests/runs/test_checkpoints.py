from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from selfplay.runs.checkpoints import COMPLETE, CheckpointStore


def commit(store: CheckpointStore, step: int, text: str = "w") -> None:
    with store.stage(step) as folder:
        (folder / "actor").mkdir()
        (folder / "actor" / "weights").write_text(text)


def test_the_newest_by_number_is_latest_and_only_keep_remain(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    assert store.latest() is None
    for step in (9, 10, 100, 99):
        commit(store, step)
    assert [checkpoint.step for checkpoint in store.all()] == [99, 100]
    latest = store.latest()
    assert latest is not None
    assert latest.path == tmp_path / "step_000100"


def test_fewer_are_kept_when_reopened_with_a_smaller_keep(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        commit(CheckpointStore(tmp_path, keep=3), step)
    assert [checkpoint.step for checkpoint in CheckpointStore(tmp_path, keep=1).all()] == [3]


def test_a_block_that_raises_commits_nothing(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    commit(store, 1)

    def fail_half_way() -> None:
        with store.stage(2) as folder:
            (folder / "half").write_text("")
            raise RuntimeError("disk")

    with pytest.raises(RuntimeError, match="disk"):
        fail_half_way()
    assert [entry.name for entry in tmp_path.iterdir()] == ["step_000001"]


def test_the_same_step_is_replaced(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    commit(store, 4, "old")
    commit(store, 4, "new")
    assert (tmp_path / "step_000004" / "actor" / "weights").read_text() == "new"
    assert len(store.all()) == 1


def test_opening_finishes_complete_ones_and_sweeps_the_rest(tmp_path: Path) -> None:
    whole, half, trash = tmp_path / ".staging_step_000007", tmp_path / ".staging_step_000008", tmp_path / ".trash_x"
    for folder in (whole, half, trash, tmp_path / "step_000009"):
        folder.mkdir()
        (folder / "weights").write_text("w")
    (whole / COMPLETE).write_text("7\n")
    store = CheckpointStore(tmp_path, keep=2)
    assert [checkpoint.step for checkpoint in store.all()] == [7], "a folder without the marker is no checkpoint"
    assert not half.exists()
    assert not trash.exists()


def test_a_replacement_killed_between_removal_and_rename_is_not_lost(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=1)
    commit(store, 5, "old")
    (tmp_path / "step_000005").rename(tmp_path / ".trash_step_000005")
    staged = tmp_path / ".staging_step_000005"
    staged.mkdir()
    (staged / "weights").write_text("new")
    (staged / COMPLETE).write_text("5\n")
    latest = CheckpointStore(tmp_path, keep=1).latest()
    assert latest is not None
    assert (latest.path / "weights").read_text() == "new"


def test_keeping_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keep: 0 is not allowed"):
        CheckpointStore(tmp_path, keep=0)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x40
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: flip(folder / "actor" / "weights"), "actor/weights is not what was written"),
        (lambda folder: (folder / "actor" / "weights").write_text("we"), "actor/weights is not what was written"),
        (lambda folder: (folder / "actor" / "weights").unlink(), "actor/weights is missing"),
        (lambda folder: (folder / COMPLETE).write_text('{"step": 2, "sha'), "COMPLETE is not what a run writes"),
        (lambda folder: (folder / COMPLETE).write_bytes(b"\xff\x00"), "COMPLETE is not what a run writes"),
    ],
)
def test_a_damaged_checkpoint_is_set_aside_for_the_one_before(
    spoil: Callable[[Path], object], said: str, tmp_path: Path
) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    commit(store, 1, "weights of step 1")
    commit(store, 2, "weights of step 2")
    spoil(tmp_path / "step_000002")
    opened = CheckpointStore(tmp_path, keep=2)
    latest = opened.latest()
    assert latest is not None
    assert latest.step == 1
    (aside,) = opened.set_aside
    assert said in aside
    assert (tmp_path / "damaged_step_000002").is_dir()
    commit(opened, 2, "again")
    again = opened.latest()
    assert again is not None
    assert again.step == 2


def test_without_a_sound_checkpoint_there_is_none(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    for step in (1, 2):
        commit(store, step)
        flip(tmp_path / f"step_00000{step}" / "actor" / "weights")
    assert store.latest() is None
    assert len(store.set_aside) == 2


def test_a_checkpoint_of_a_version_without_sums_is_taken_as_it_is(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    commit(store, 3)
    (tmp_path / "step_000003" / COMPLETE).write_text("3\n")
    latest = store.latest()
    assert latest is not None
    assert latest.step == 3
