"""Learning is real: three seeds of the default run, a control that may not learn, and a second, pretrained backbone."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import Launch, metrics_of, summary_of

pytestmark = pytest.mark.slow


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_held_out_pass_rate_rises(seed: int, tmp_path: Path, cache: Path) -> None:
    launch = Launch(tmp_path, [f"seed={seed}"], cache)
    assert launch.wait(1700) == 0, launch.console()[-3000:]
    summary = summary_of(launch.run_dir)
    before, after = summary["eval"]["before"], summary["eval"]["after"]
    assert after["pass_at_1"] >= before["pass_at_1"] + 0.10
    assert after["interval"][0] > before["interval"][1]
    assert all(line["logprob_pearson"] > 0.99 for line in metrics_of(launch.run_dir))


@pytest.mark.timeout(1800)
def test_a_frozen_policy_stays_where_it_was(tmp_path: Path, cache: Path) -> None:
    launch = Launch(tmp_path, ["experiment=ancora_control", "algo.steps=10"], cache)
    assert launch.wait(1700) == 0, launch.console()[-3000:]
    scores = summary_of(launch.run_dir)["eval"]
    assert scores["after"] == scores["before"]  # equal weights and equal request seeds: equal to the digit


@pytest.mark.timeout(1800)
def test_a_pretrained_backbone_runs_the_same_loop(tmp_path: Path, cache: Path) -> None:
    overrides = [
        "backbone=smollm2_135m",
        "algo.steps=1",
        "algo.seeds_per_step=1",
        "algo.proposals_per_seed=2",
        "algo.attempts_per_spec=2",
        "algo.warmup.steps=2",
        "algo.warmup.batch_size=4",
        "algo.warmup.n_demos=64",
        "algo.warmup.rounds=0",
        "algo.warmup.lr=1e-4",
        "algo.optim.lr=1e-5",
        "algo.eval.samples=1",
        "cluster.rollout.kv_cache_mib=1024",
    ]
    launch = Launch(tmp_path, overrides, cache)
    assert launch.wait(1700) == 0, launch.console()[-3000:]
    assert all(line["logprob_pearson"] > 0.99 for line in metrics_of(launch.run_dir))
