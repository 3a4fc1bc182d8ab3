"""The engine on a real launch: Ray, an FSDP rank, a vLLM server, a frozen server and the toy episodes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file

from selfplay.engine.episode import Sampler, Task
from selfplay.engine.errors import RolloutFailed
from selfplay.engine.merged_weights import merge
from selfplay.engine.session import Session

if TYPE_CHECKING:
    from selfplay.engine.trainer import RowView  # imports verl, which wants its environment set first

PROBE = [5, 60, 7, 80, 9, 100, 11, 12]


def centred(rows: Sequence[RowView]) -> list[float]:
    """Reward minus the batch's mean reward."""
    mean = sum(row.reward for row in rows) / len(rows)
    return [row.reward - mean for row in rows]


def tasks(n: int, sessions: int = 2) -> list[Task]:
    return [Task({"text": f"q{i}"}, sessions, "toy") for i in range(n)]


def gap(session: Session) -> float:
    """Largest difference between the actor's and the server's log-probs of a fixed text."""
    actor, server = session.score(PROBE)
    assert len(actor) == len(server) == len(PROBE) - 1
    return max(abs(a - b) for a, b in zip(actor, server, strict=True))


def test_actor_and_server_agree_after_start(session: Session) -> None:
    assert gap(session) < 1e-4


def test_rows_of_a_session_keep_their_roles_groups_and_rewards(session: Session) -> None:
    seen: list[RowView] = []

    def advantages(rows: Sequence[RowView]) -> list[float]:
        seen.extend(rows)
        return centred(rows)

    result = session.step(tasks(3), advantages, lr=1e-3)
    proposals = [row for row in result.rows if row["role"] == "proposer"]
    assert len(proposals) == 6  # 3 tasks x 2 sessions, whatever came of them
    for row in proposals:
        attempts = [
            r for r in result.rows if r["role"] == "solver" and r["group"] == f"{row['group']}/{row['key'][-3]}"
        ]
        assert len(attempts) == (3 if row["accepted"] else 0)
        mean = sum(r["reward"] for r in attempts) / max(1, len(attempts))
        assert row["reward"] == pytest.approx(mean)
        assert [r["attempt"] for r in attempts] == list(range(len(attempts)))
    assert [row.key for row in seen] == [row["key"] for row in result.rows]
    assert all(row["tokens"] <= 6 for row in result.rows)
    assert result.metrics["training/rollout_actor_probs_pearson_corr"] > 0.99


def test_a_step_takes_any_number_of_rows(session: Session) -> None:
    for n, sessions in ((1, 1), (5, 3)):
        result = session.step(tasks(n, sessions), centred, lr=1e-3)
        assert sum(row["role"] == "proposer" for row in result.rows) == n * sessions
        assert result.metrics["training/rollout_actor_probs_pearson_corr"] > 0.99


def test_zero_advantages_leave_the_weights_alone(session: Session) -> None:
    session.reset_optimizer()
    before = session.digest()[0]["weights"]
    result = session.step(tasks(2), lambda rows: [0.0] * len(rows), lr=1e-3)
    assert result.metrics["actor/grad_norm"] == 0.0
    assert session.digest()[0]["weights"] == before
    session.step(tasks(2), lambda rows: [float(i % 2) for i in range(len(rows))], lr=1e-3)
    assert session.digest()[0]["weights"] != before


def test_a_broken_weight_sync_is_seen(session: Session, tmp_path: Path) -> None:
    session.save(tmp_path / "state")
    session.perturb(0.5)
    assert gap(session) > 0.1
    result = session.step(tasks(3), lambda rows: [0.0] * len(rows), lr=0.0)
    assert result.metrics["training/rollout_actor_probs_pearson_corr"] < 0.99
    session.load(tmp_path / "state")
    assert gap(session) < 1e-4


def test_roles_switch_by_loading_state(session: Session, tmp_path: Path) -> None:
    session.step(tasks(2), centred, lr=1e-3)
    session.save(tmp_path / "a")
    digest_a, score_a = session.digest(), session.score(PROBE)
    session.step(tasks(2), lambda rows: [1.0] * len(rows), lr=1e-2)
    session.save(tmp_path / "b")
    digest_b = session.digest()
    assert digest_a != digest_b
    session.load(tmp_path / "a")
    assert session.digest() == digest_a
    assert session.score(PROBE)[0] == pytest.approx(score_a[0], abs=1e-5)
    assert gap(session) < 1e-4
    session.load(tmp_path / "b")
    assert session.digest() == digest_b


def test_equal_seeds_give_equal_steps(session: Session, tmp_path: Path) -> None:
    session.save(tmp_path / "start")
    outcomes = []
    for _ in range(2):
        session.load(tmp_path / "start", step=100)
        result = session.step(tasks(4), centred, lr=1e-3)
        outcomes.append((result.rows, session.digest()))
    assert outcomes[0] == outcomes[1]


def test_supervised_steps_learn_and_reach_the_server(session: Session) -> None:
    pair = (PROBE[:3], PROBE[3:])
    first = session.sft([pair] * 16, batch_size=4, lr=1e-2)
    last = session.sft([pair] * 16, batch_size=4, lr=1e-2)
    assert len(first) == 4
    assert last[-1] < first[0] / 2
    session.reset_optimizer()
    session.sync()
    assert gap(session) < 1e-4


def test_the_frozen_server_does_not_move(session: Session) -> None:
    def ask(frozen: bool) -> list[list[int]]:
        samples = session.generate([PROBE] * 4, max_tokens=6, seed_key=("frozen",), frozen=frozen)
        return [sample.token_ids for sample in samples]

    frozen, policy = ask(True), ask(False)
    session.step(tasks(2), lambda rows: [1.0] * len(rows), lr=3e-2)
    assert ask(True) == frozen
    assert ask(False) != policy


def test_samples_of_one_prompt_differ_and_repeat(session: Session) -> None:
    # The frozen server: by now the policy, trained on toy rewards, may repeat one token whatever the seed.
    first = session.generate([PROBE] * 8, max_tokens=8, seed_key=("x",), frozen=True)
    again = session.generate([PROBE] * 8, max_tokens=8, seed_key=("x",), frozen=True)
    assert [s.token_ids for s in first] == [s.token_ids for s in again]
    assert len({tuple(s.token_ids) for s in first}) > 1


def test_a_failing_episode_names_its_reason_and_the_session_goes_on(session: Session) -> None:
    with pytest.raises(RolloutFailed, match="the toy verifier exploded"):
        session.step([Task({"text": "q"}, 2, "failing")], centred, lr=1e-3)
    result = session.step(tasks(2), centred, lr=1e-3)
    assert result.rows


def test_the_balancer_knows_the_only_server_by_name(session: Session) -> None:
    """A handle would make the balancer's process import vLLM, some 20 s of a core in the middle of the first steps."""
    import ray

    manager = session._trainer.llm_server_manager
    (name,) = manager.server_handles
    assert ray.get_actor(name)._actor_id == manager.get_replicas()[0].servers[0]._actor_id


def assert_merged(state: Path, exported: Path, folder: Path, shards: int) -> None:
    """The shards of a saved state make the weights that were exported, beside a tokenizer and a configuration."""
    assert len(list(state.glob("model_world_size_*.pt"))) == shards
    merge(state, folder)
    merged, whole = load_file(folder / "model.safetensors"), load_file(exported / "model.safetensors")
    assert set(merged) == set(whole) - {"lm_head.weight"}
    assert all(torch.equal(merged[name], whole[name].to(merged[name].dtype)) for name in merged)
    assert {"config.json", "tokenizer.json"} <= {path.name for path in folder.iterdir()}


def test_a_saved_state_is_merged_into_a_model(session: Session, initial_state: Path, tmp_path: Path) -> None:
    session.load(initial_state)
    session.step(tasks(2), lambda rows: [1.0 - 2.0 * (i % 2) for i in range(len(rows))], lr=3e-3)
    session.save(tmp_path / "state")
    session.export(tmp_path / "exported")
    assert_merged(tmp_path / "state", tmp_path / "exported", tmp_path / "merged", shards=1)
    (shard,) = (tmp_path / "state").glob("model_world_size_*.pt")
    shard.rename(shard.with_name("model_world_size_2_rank_1.pt"))
    with pytest.raises(ValueError, match=r"shards of ranks \[1\], of 2"):
        merge(tmp_path / "state", tmp_path / "again")


class Bomb:
    """Unpickled carelessly, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.path), "w")


@pytest.mark.parametrize("kind", ["model", "optim", "extra_state"])
def test_a_checkpoint_that_would_run_code_is_refused(
    kind: str, session: Session, initial_state: Path, tmp_path: Path
) -> None:
    shutil.copytree(initial_state, tmp_path / "state")
    path = tmp_path / "state" / f"{kind}_world_size_1_rank_0.pt"
    content = torch.load(path, weights_only=False)  # written by this test's session
    torch.save({**content, "more": Bomb(tmp_path / "ran")}, path)
    with pytest.raises(ValueError, match=f"{kind}_world_size_1_rank_0.pt: not a readable state of a rank"):
        session.load(tmp_path / "state")
    assert not (tmp_path / "ran").exists()
    torch.load(path, weights_only=False)
    assert (tmp_path / "ran").exists()  # it would have


def test_a_frozen_server_on_a_shared_card_sleeps_while_the_policy_is_trained(
    session: Session, initial_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray import put

    from selfplay.engine.servers import Server

    calls: list[tuple[str, str]] = []

    class Call:
        def __init__(self, name: str) -> None:
            self.name = name

        def remote(self) -> Any:
            calls.append((self.name, session.heartbeat.pulse().phase))
            return put(None)

    class Handle:  # stands for a server on a GPU, of which there is none here
        sleep, wake_up = Call("sleep"), Call("wake_up")

    session.load(initial_state)
    monkeypatch.setattr(session._trainer, "frozen", Server(Handle(), None, "frozen", shares_card=True))
    session.step(tasks(2), centred, lr=1e-3)
    assert calls == [("sleep", "generate"), ("wake_up", "sync")]
    session.sft([([1, 2], [3, 4])] * 2, 2, lr=1e-3)
    session.sync()
    assert calls[2:] == [("sleep", "sft"), ("wake_up", "sync")]


def test_the_frozen_group_takes_exported_weights(session: Session, initial_state: Path, tmp_path: Path) -> None:
    def answers(frozen: bool) -> tuple[list[list[int]], list[float]]:
        samples = session.generate([PROBE] * 4, max_tokens=8, seed_key=("frozen",), frozen=frozen)
        return [sample.token_ids for sample in samples], [x for sample in samples for x in sample.log_probs]

    def agree() -> bool:
        (ids, log_probs), (frozen_ids, frozen_log_probs) = answers(False), answers(True)
        return ids == frozen_ids and log_probs == pytest.approx(frozen_log_probs, abs=1e-4)

    def advance() -> None:
        session.step(tasks(3), lambda rows: [1.0 - 2.0 * (i % 2) for i in range(len(rows))], lr=3e-3)

    session.load(initial_state)
    advance()
    assert not agree()
    digest = session.export(tmp_path / "a")
    session.refresh_frozen(tmp_path / "a")
    assert agree()
    advance()
    assert not agree()  # it is frozen
    assert session.export(tmp_path / "b") != digest
    session.load(initial_state)
    session.export(tmp_path / "c")
    session.refresh_frozen(tmp_path / "c")
    assert agree()


def test_own_work_is_done_in_order_and_by_name(session: Session, initial_state: Path) -> None:
    session.load(initial_state)

    async def one(sampler: Sampler) -> list[int]:
        return (await sampler.sample(PROBE, max_tokens=6, key=())).token_ids

    seen: dict[int, list[int]] = {}
    first = session.run_all([one] * 5, seed_key=("work",), on_done=seen.__setitem__, at_once=2)
    assert [seen[i] for i in range(5)] == first
    assert len({tuple(ids) for ids in first}) > 1  # draws of their own
    assert session.run_all([one] * 5, seed_key=("work",)) == first
    named = session.run_all([one] * 3, seed_key=("work",), names=["a", "b", "c"])
    assert session.run_all([one] * 2, seed_key=("work",), names=["c", "a"]) == [named[2], named[0]]


def test_rows_that_are_not_trained_leave_the_weights_alone(session: Session, initial_state: Path) -> None:
    session.load(initial_state)
    before = session.digest()[0]["weights"]
    result = session.step([Task({"text": "q", "trained": False}, 2, "toy")], centred, lr=1e-2)
    assert len(result.rows) >= 2
    assert session.digest()[0]["weights"] == before
    session.step([Task({"text": "q"}, 2, "toy")], lambda rows: [1.0] * len(rows), lr=1e-2)
    assert session.digest()[0]["weights"] != before


def test_a_row_s_clip_bound_reaches_the_gradient(session: Session, initial_state: Path) -> None:
    """The same rows, updated three times over: from the second time on, the bound decides what still moves."""
    actor = session._trainer.config.actor_rollout_ref.actor
    step, results = session._trainer.global_steps, {}
    actor.ppo_epochs = 3
    try:
        for bound in (0.01, 0.01, 10.0, None, 0.2):
            session.load(initial_state, step)
            many = [Task({"text": f"q{i}", "clip_high": bound}, 2, "toy") for i in range(3)]
            result = session.step(many, lambda rows: [1.0] * len(rows), lr=5e-3)
            results.setdefault(bound, []).append((session.digest()[0]["weights"], result.metrics["actor/pg_clipfrac"]))
    finally:
        actor.ppo_epochs = 1
        session.load(initial_state, step)
    assert results[0.01][0] == results[0.01][1]
    assert results[0.01][0][1] > results[10.0][0][1]  # a tight bound clips more ...
    assert results[0.01][0][0] != results[10.0][0][0]  # ... and leads elsewhere
    assert results[None][0] == results[0.2][0]  # a row without a bound has the policy's
