"""Our session and bare `verl.trainer.main_ppo` on the same work: same model, prompts, lengths, batch and settings.

As a program, `python bench_trainers.py ours|equal|stock FOLDER SHAPE` takes the steps in this process and writes
`FOLDER/steps.json`; `measure` starts it. The time of a step is that from the end of the one before to its own end, so
whatever a trainer does between steps (data, metrics, logging) counts for both.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import bench_episode
import psutil

HERE = Path(__file__).parent
SKIPPED = 4  # first steps, left out: caches fill, allocators grow
SEED = 7
KINDS = ("ours", "equal", "stock")  # our session; bare verl with our CPU speed-ups (see `bench_bare`); without


@dataclass(frozen=True)
class Shape:
    """The work: `prompts` prompts a rank and step, `group` answers each, `response` tokens an answer."""

    prompts: int = 8
    group: int = 8
    response: int = 64
    steps: int = 16
    ranks: int = 1
    threads: int = 2  # torch threads of a rank

    @property
    def tokens(self) -> int:
        """Response tokens of a step."""
        return self.prompts * self.ranks * self.group * self.response


@dataclass(frozen=True)
class Measured:
    """One launch: seconds, processor seconds (of all its processes) and response tokens of each step that counts."""

    kind: str
    step_s: list[float]
    cpu_s: list[float]
    tokens: list[int]


def clocks(root: int) -> tuple[float, float]:
    """Now, in seconds since the epoch, and the processor seconds that a process and its descendants have used."""
    used = 0.0
    for process in [psutil.Process(root), *psutil.Process(root).children(recursive=True)]:
        try:
            times = process.cpu_times()
            used += times.user + times.system
        except psutil.Error:  # it ended meanwhile
            continue
    return time.time(), used


def steady(kind: str, ends: list[tuple[float, float]], tokens: list[int]) -> Measured:
    """From the `clocks` at the end of each step: what each took, without the first `SKIPPED`.

    Raises ValueError where nothing is left, or where a step has an end and no count of tokens.
    """
    if len(ends) != len(tokens):
        raise ValueError(f"{kind}: {len(ends)} steps ended, {len(tokens)} were counted")
    if len(ends) <= SKIPPED:
        raise ValueError(f"{kind}: {len(ends)} steps are too few, {SKIPPED} are left out")
    pairs = list(zip(ends[SKIPPED - 1 :], ends[SKIPPED:], strict=False))
    seconds, used = ([after[i] - before[i] for before, after in pairs] for i in (0, 1))
    return Measured(kind, seconds, used, tokens[SKIPPED:])


def measure(kind: str, shape: Shape, folder: Path, timeout: float = 480) -> Measured:
    """Launch `kind` in a process of its own. Raises RuntimeError with the end of its log when it fails."""
    folder.mkdir(parents=True)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent)])}
    command = [sys.executable, str(Path(__file__)), kind, str(folder), json.dumps(asdict(shape))]
    log = folder / "log.txt"
    with log.open("w") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, env=environment, timeout=timeout)
    path = folder / "steps.json"
    if done.returncode or not path.exists():
        raise RuntimeError(f"{kind} ended with {done.returncode}:\n{log.read_text()[-3000:]}")
    found = json.loads(path.read_text())
    result = steady(kind, found["ends"], found["tokens"])
    wrong = [count for count in result.tokens if count != shape.tokens]
    if wrong:
        raise RuntimeError(f"{kind}: {wrong[0]} tokens in a step instead of {shape.tokens}: nothing can be compared")
    return result


# ---------------------------------------------------------------- in the launched process


def main() -> None:
    kind, folder, shape = sys.argv[1], Path(sys.argv[2]), Shape(**json.loads(sys.argv[3]))
    if kind not in KINDS:
        sys.exit(f"there is no trainer {kind!r}")
    from selfplay.engine.config import ClusterConfig, FsdpConfig
    from selfplay.engine.environment import apply
    from selfplay.engine.processes import new_token
    from selfplay.engine.reaper import start_guard

    cluster = ClusterConfig(ranks_per_node=shape.ranks, fsdp=FsdpConfig(threads=shape.threads))
    token = new_token()
    environment = apply(cluster, token)
    guard = start_guard(token, os.getpid(), log_path=folder / "guard.log")
    try:
        with guard.scratch():
            if kind == "ours":
                steps = ours(shape, cluster, token, folder)
            else:
                steps = bare(kind, shape, cluster, environment, folder)
    finally:
        import ray

        ray.shutdown()
        guard.finish()
    (folder / "steps.json").write_text(json.dumps(steps))


def policy_of(shape: Shape) -> Any:
    from selfplay.backbones.config import BackboneConfig
    from selfplay.backbones.prepare import prepare
    from selfplay.engine.policy import PolicySpec

    return PolicySpec(prepare(BackboneConfig()), max_prompt=64, max_response=shape.response)


def ours(shape: Shape, cluster: Any, token: str, folder: Path) -> dict[str, Any]:
    from selfplay.engine.episode import Task
    from selfplay.engine.heartbeat import Heartbeat
    from selfplay.engine.session import EpisodeSpec, Session

    spec = EpisodeSpec("bench", "bench_episode:build", {"tokens": shape.response})
    session = Session(policy_of(shape), cluster, [spec], SEED, token, folder, Heartbeat())
    session.start()
    session.set_step(1)
    ends, tokens, timings = [], [], []
    wanted = shape.prompts * shape.ranks
    for step in range(shape.steps):
        texts = [bench_episode.question(step * wanted + i) for i in range(wanted)]
        tasks = [Task({"text": text}, shape.group, "bench") for text in texts]
        result = session.step(tasks, bench_episode.group_relative, lr=1e-3)
        ends.append(clocks(os.getpid()))
        tokens.append(sum(row["tokens"] for row in result.rows))
        timings.append(result.timing_s)
    session.close()
    return {"ends": ends, "tokens": tokens, "timings": timings}


def bare(kind: str, shape: Shape, cluster: Any, environment: dict[str, str], folder: Path) -> dict[str, Any]:
    import pandas
    from omegaconf import open_dict
    from verl.trainer.main_ppo import run_ppo

    from selfplay.engine.startup import episodes_yaml, start_ray

    ends, metrics = folder / "ends.txt", folder / "metrics.jsonl"
    environment |= {"BENCH_BARE": kind, "BENCH_STEP_ENDS": str(ends), "VERL_FILE_LOGGER_PATH": str(metrics)}
    environment["BENCH_DRIVER"] = str(os.getpid())
    os.environ.update(environment)
    wanted = shape.prompts * shape.ranks
    rows = [
        {
            "data_source": "bench",
            "prompt": [{"role": "user", "content": bench_episode.question(i)}],
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {"index": i},
        }
        for i in range(shape.steps * wanted)
    ]
    data = folder / "data.parquet"
    pandas.DataFrame(rows).to_parquet(data)
    start_ray(cluster, environment)  # as ours; run_ppo takes the Ray that is there

    import bench_bare

    from selfplay.engine.verl_config import verl_config

    # Our own configuration, so that every number that matters is the same, and then verl's defaults put back where
    # ours replace a part of the stock trainer.
    config = verl_config(policy_of(shape), cluster, episodes_yaml([], cluster, SEED, folder), SEED)
    with open_dict(config):
        rollout, actor = config.actor_rollout_ref.rollout, config.actor_rollout_ref.actor
        config.data.train_files = config.data.val_files = str(data)
        config.data.train_batch_size, config.data.dataloader_num_workers = wanted, 0
        rollout.n, rollout.ignore_eos = shape.group, True
        rollout.agent.agent_loop_config_path = rollout.router_config_path = None
        actor.ppo_mini_batch_size, actor.optim.lr = wanted, 1e-3
        config.reward.num_workers = 1
        config.reward.custom_reward_function.path = str(HERE / "bench_episode.py")
        config.reward.custom_reward_function.name = "compute_score"
        config.transfer_queue.backend.SimpleStorage.num_data_storage_units = 1
        config.transfer_queue.backend.SimpleStorage.total_storage_size = 100_000
        config.trainer.v1.sampler.custom_sampler.path = config.trainer.v1.sampler.custom_sampler.name = None
        config.trainer.v1.trainer_mode = bench_bare.MODE
        config.trainer.logger = ["file"]
        config.trainer.total_training_steps, config.trainer.total_epochs = shape.steps, 1
    run_ppo(config, bench_bare.BareRunner)
    lines = [json.loads(line)["data"] for line in metrics.read_text().splitlines()]
    counted = [round(line["response_length/mean"] * wanted * shape.group) for line in lines]
    return {"ends": [json.loads(line) for line in ends.read_text().splitlines()], "tokens": counted, "metrics": lines}


if __name__ == "__main__":
    main()
