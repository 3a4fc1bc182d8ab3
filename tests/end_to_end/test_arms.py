"""Each arm of the ablations runs, and shows the property that defines it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from launch import Launch, metrics_of, summary_of

pytestmark = pytest.mark.slow

ARM = (
    "algo.steps=3",
    "algo.seeds_per_step=4",
    "algo.proposals_per_seed=4",
    "algo.attempts_per_spec=4",
    "algo.warmup.rounds=0",
    "algo.eval.samples=1",
    "seed=5",
)
Rows = list[dict[str, Any]]
K = 4


def rows_of(run_dir: Path) -> Rows:
    return [
        json.loads(line)
        for path in sorted(run_dir.glob("rollouts/step_*.jsonl"))
        for line in path.read_text().splitlines()
    ]


def proposals(rows: Rows) -> list[tuple[float, int | None]]:
    """Reward and number of solved attempts of each proposal; None for a rejected one."""
    solved: dict[str, int] = {}
    for row in rows:
        if row["role"] == "solver":
            solved[row["group"]] = solved.get(row["group"], 0) + (row["reward"] == 1.0)
    out = []
    for row in rows:
        if row["role"] == "proposer":
            session = row["key"].rsplit("_", 2)[1]
            accepted = row["verdict"] == "accepted"
            out.append((row["reward"], solved[f"{row['group']}/{session}"] if accepted else None))
    return out


def rewarded(formula: Callable[[int], float], rejected: float = 0.0) -> Callable[[Rows, Rows], None]:
    def check(metrics: Rows, rows: Rows) -> None:
        seen = proposals(rows)
        assert any(m is not None for _, m in seen)
        for reward, m in seen:
            assert reward == pytest.approx(rejected if m is None else formula(m), abs=1e-6)

    return check


def branch_is_frozen(frozen: str, other: str) -> Callable[[Rows, Rows], None]:
    def check(metrics: Rows, rows: Rows) -> None:
        assert all(line[f"advantage/{frozen}_nonzero"] == 0.0 for line in metrics)
        assert any(line[f"advantage/{other}_nonzero"] > 0.0 for line in metrics)
        assert all(row["advantage"] == 0.0 for row in rows if row["role"] == frozen)

    return check


def no_descent(metrics: Rows, rows: Rows) -> None:
    assert all(line["seeds/roots"] == 1.0 for line in metrics)


def no_crossover(metrics: Rows, rows: Rows) -> None:
    assert not any("\nwith\n" in row["prompt"] for row in rows if row["role"] == "proposer")


def some_crossover(metrics: Rows, rows: Rows) -> None:
    asked = ["\nwith\n" in row["prompt"] for row in rows if row["role"] == "proposer"]
    assert any(asked)
    assert not all(asked)


def adaptive(metrics: Rows, rows: Rows) -> None:
    assert all(line["balance/w_q"] >= 0.125 for line in metrics)
    assert len({round(line["balance/w_q"], 6) for line in metrics}) > 1


def by_rows(metrics: Rows, rows: Rows) -> None:
    for line in metrics:
        proposed = sum(row["role"] == "proposer" for row in rows if row["key"].startswith(f"s{line['step']:06d}"))
        attempted = sum(row["role"] == "solver" for row in rows if row["key"].startswith(f"s{line['step']:06d}"))
        if attempted:
            assert line["balance/scale_q"] == pytest.approx((proposed + attempted) / (2 * proposed))


def rescued(metrics: Rows, rows: Rows) -> None:
    for line in metrics:
        assert line["balance/w_q"] == (1.0 if line["q_valid"] < 0.30 else 0.375)


def repaired(metrics: Rows, rows: Rows) -> None:
    """A second turn follows a failure and shows what the verifier said; attempts that verify at once have one turn."""
    texts = [(row["response"], row["reward"]) for row in rows if row["role"] == "solver"]
    second = [text for text, _ in texts if text.count("```") > 2]
    assert second
    assert any("refuted:" in text or "malformed:" in text for text in second)


ARMS: dict[str, Callable[[Rows, Rows], None]] = {
    "freeze_proposer": branch_is_frozen("proposer", "solver"),
    "freeze_solver": branch_is_frozen("solver", "proposer"),
    "no_descent": no_descent,
    "reward_variance": rewarded(lambda m: 4 * (m / K) * (1 - m / K)),
    "reward_exponential": rewarded(lambda m: math.exp(-m) - math.exp(-K)),
    "validity_aware": rewarded(lambda m: float(m == 1), rejected=-0.1),
    "empirical": some_crossover,
    "no_crossover": no_crossover,
    "empirical_no_crossover": no_crossover,
    "operator_aware": some_crossover,
    "zpd_clip": some_crossover,
    "balance_adaptive": adaptive,
    "balance_rows": by_rows,
    "rescue": rescued,
    "repair": repaired,
}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("arm", ARMS)
def test_an_arm_shows_its_property(arm: str, tmp_path: Path, cache: Path) -> None:
    launch = Launch(tmp_path, [f"experiment=ancora_{arm}", *ARM], cache)
    assert launch.wait(1100) == 0, launch.console()[-3000:]
    metrics = metrics_of(launch.run_dir)
    assert len(metrics) == 3
    ARMS[arm](metrics, rows_of(launch.run_dir))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("algo", ["rft", "psv"])
def test_a_baseline_trains_on_verified_attempts_alone(algo: str, tmp_path: Path, cache: Path) -> None:
    launch = Launch(tmp_path, [f"algo={algo}", *ARM], cache)
    assert launch.wait(1100) == 0, launch.console()[-3000:]
    metrics, rows = metrics_of(launch.run_dir), rows_of(launch.run_dir)
    assert len(metrics) == 3
    assert all((line["sft/loss"] > 0) == (line["reward/solver"] > 0) for line in metrics)
    assert any(row["role"] == "proposer" for row in rows) == (algo == "psv")
    assert (metrics[-1]["pool/size"] > metrics[0]["pool/size"]) or algo == "rft"
    assert summary_of(launch.run_dir)["eval"]["gain"]


@pytest.mark.timeout(1200)
def test_a_budget_of_attempts_ends_the_run(tmp_path: Path, cache: Path) -> None:
    launch = Launch(tmp_path, ["algo=rft", *ARM, "algo.steps=50", "algo.max_solver_samples=80"], cache)
    assert launch.wait(1100) == 0, launch.console()[-3000:]
    assert summary_of(launch.run_dir)["steps"] == 2  # 12 roots x 4 attempts a step


UNTAUGHT = (
    "algo.steps=30",
    "algo.seeds_per_step=1",
    "algo.proposals_per_seed=2",
    "algo.warmup.steps=0",
    "algo.eval.samples=1",
)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("answer", "words"), [("stop", "stopped: step 20"), ("rollback", "after 3 rollbacks")])
def test_a_collapse_is_answered(answer: str, words: str, tmp_path: Path, cache: Path) -> None:
    """A model that was never taught writes nothing valid: the alarm comes with the first whole window."""
    launch = Launch(tmp_path, [*UNTAUGHT, f"algo.on_collapse={answer}"], cache)
    assert launch.wait(1100) == 0, launch.console()[-3000:]
    summary = summary_of(launch.run_dir)
    assert words in summary["message"]
    assert summary["steps"] == 20
    last = max((launch.run_dir / "checkpoints").glob("step_*"))
    assert words in json.loads((last / "state.json").read_text())["position"]["stopped"]  # a kill now forgets nothing
    assert [line["step"] for line in metrics_of(launch.run_dir)] == list(range(1, 21))
    assert launch.console().count("back to step 0") == (3 if answer == "rollback" else 0)
