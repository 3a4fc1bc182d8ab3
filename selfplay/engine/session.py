"""The engine's one door: a `Session` is one Ray session with one set of workers, for a whole run.

Roles and phases switch by loading state (`save`, `load`), never by restarting processes: a start costs most of a
minute on a laptop, a switch less than a tenth of a second.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar
from uuid import uuid4

from selfplay.engine.config import ClusterConfig
from selfplay.engine.environment import apply
from selfplay.engine.episode import Message, Sample, Sampler, Task
from selfplay.engine.errors import EngineError, RolloutFailed, WorkerLost
from selfplay.engine.heartbeat import Heartbeat
from selfplay.engine.liveness import await_nodes, check_alive, worker_processes
from selfplay.engine.policy import PolicySpec
from selfplay.engine.startup import EpisodeSpec, Loading, episodes_yaml, start_ray, start_trainer
from selfplay.engine.step_rows import plain, step_rows

log = logging.getLogger(__name__)
T = TypeVar("T")

TIMINGS = {  # verl's name for a part of the step -> ours
    "gen": "generate",
    "old_log_prob": "log_probs",
    "ref": "ref_log_probs",
    "adv": "advantages",
    "update_actor": "update",
    "update_weights": "sync",
}


@dataclass
class StepResult:
    """What one step did: the rows with their texts, and numbers."""

    rows: list[dict[str, Any]]
    metrics: dict[str, float]
    timing_s: dict[str, float]

    @property
    def busy_s(self) -> float:
        """Seconds in generation (with verification), log-probs, update and sync: all else is overhead."""
        return sum(seconds for phase, seconds in self.timing_s.items() if phase not in ("step", "advantages"))


@dataclass
class Session:
    """Workers of a run. `start` brings them up, `close` takes them down; both may be called once."""

    policy: PolicySpec
    cluster: ClusterConfig
    episodes: Sequence[EpisodeSpec]
    seed: int
    run_token: str
    log_dir: Path
    heartbeat: Heartbeat
    environment: dict[str, str] = field(init=False, default_factory=dict)
    _trainer: Any = field(init=False, default=None)
    _engine_log: IO[str] | None = field(init=False, default=None)
    _ray_dir: str = field(init=False, default="")
    _watched: dict[int, str] = field(init=False, default_factory=dict)
    _nodes: dict[str, str] = field(init=False, default_factory=dict)

    # ---------------------------------------------------------------- life

    def start(self) -> None:
        """Start Ray, the FSDP ranks, the vLLM servers and the agent-loop workers, and sync the first weights."""
        self.environment = apply(self.cluster, self.run_token)
        self.log_dir.mkdir(parents=True, exist_ok=True)
        self._engine_log = (self.log_dir / "engine.log").open("a", encoding="utf-8")
        limit = self.cluster.watchdog.startup_s
        # What the libraries print and warn while they load is for the log, not for the console.
        with redirect_stdout(self._engine_log), redirect_stderr(self._engine_log):
            loading = Loading(accelerated=self.cluster.device != "cpu")
            with self.heartbeat.phase("start: ray", stall_s=limit):
                self._ray_dir = start_ray(self.cluster, loading.environment() | self.environment)
                self._nodes = await_nodes(self.cluster.nodes, self.heartbeat) if self.cluster.nodes > 1 else {}
            with self.heartbeat.phase("start: workers", stall_s=limit):
                agent_yaml = episodes_yaml(self.episodes, self.cluster, self.seed, self.log_dir)
                self._trainer = start_trainer(
                    self.policy, self.cluster, agent_yaml, self.seed, self.log_dir, self.heartbeat, loading
                )
                self._trainer.replay_buffer.check = self.check_alive
                self._use_policy_loss()
        self._watched = worker_processes(self.run_token)

    def close(self) -> None:
        """Stop everything this session started, and keep the workers' logs beside the run's."""
        import ray

        if self._trainer is not None:
            import transfer_queue as tq

            self._trainer = None
            tq.close()
        if ray.is_initialized():
            ray.shutdown()
        logs = Path(self._ray_dir, "logs") if self._ray_dir else None
        if logs and logs.is_dir():
            target = self.log_dir / "workers"
            target.mkdir(exist_ok=True)
            for path in [*logs.glob("worker-*.out"), *logs.glob("worker-*.err")]:
                if path.stat().st_size:
                    shutil.copyfile(path, target / path.name)

    # ---------------------------------------------------------------- liveness

    def check_alive(self) -> None:
        """Raise WorkerLost when a process or a node of the run is gone."""
        check_alive(self._watched, self._nodes)

    @contextmanager
    def _naming_losses(self) -> Iterator[None]:
        """A lost process shows as many kinds of error: raise WorkerLost for those."""
        try:
            yield
        except Exception as error:
            explained = self._explain(error)
            if explained is error:
                raise
            raise explained from error

    def _explain(self, error: Exception) -> Exception:
        deadline = time.monotonic() + 2.0
        while time.monotonic() < deadline:
            try:
                self.check_alive()
            except WorkerLost as lost:
                return lost
            time.sleep(0.2)
        name = type(error).__name__
        if "ActorDied" in name or "ActorUnavailable" in name or "Connection closed by peer" in str(error):
            return WorkerLost(f"{name}: {str(error).strip().splitlines()[0]}")
        return error

    # ---------------------------------------------------------------- work

    @property
    def tokenizer(self) -> Any:
        return self._trainer.tokenizer

    def render(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a chat with the assistant's turn opened."""
        from selfplay.engine.sampling import render

        return render(self.tokenizer, messages)

    def step(self, tasks: Sequence[Task], advantage_fn: Any, lr: float) -> StepResult:
        """One on-policy step: roll out, score, update once with learning rate `lr`, sync the weights.

        Raises WorkerLost when a process died, RolloutFailed when an episode raised; then nothing was updated, or
        the update is not in a checkpoint yet.
        """
        trainer = self._trainer
        started = time.perf_counter()
        with self._naming_losses():
            trainer.actor_rollout_wg.set_lr(lr)
            batch, metrics = trainer.train_on(tasks, advantage_fn)
            rows = step_rows(trainer, batch)
            trainer.forget(batch)
        timing = {ours: trainer.timing_raw.get(theirs, 0.0) for theirs, ours in TIMINGS.items()}
        timing["step"] = time.perf_counter() - started
        return StepResult(rows, plain(metrics), timing)

    def sft(self, pairs: Sequence[Any], batch_size: int, lr: float) -> list[float]:
        """Supervised steps of `batch_size` pairs each, at learning rate `lr`; one loss a step.

        On GPUs the servers sleep from here on: `sync` before the next sampling.

        Give it 5-20 steps a call: verl unbinds the whole batch for every mini-batch.
        """
        from verl.utils import tensordict_utils as tu
        from verl.workers.utils.losses import sft_loss

        from selfplay.engine.sft import sft_batch

        workers = self._trainer.actor_rollout_wg
        with self.heartbeat.phase("sft"), self._naming_losses():
            self._trainer.rest_servers()
            workers.set_loss_fn(partial(sft_loss, config=None))
            try:
                workers.set_lr(lr)
                pad = self.tokenizer.pad_token_id
                batch = sft_batch(pairs, batch_size, self.cluster.fsdp.max_tokens_per_rank, pad)
                return [float(x) for x in tu.get(workers.update_actor(batch), "metrics")["loss"]]
            finally:
                self._use_policy_loss()

    def _use_policy_loss(self) -> None:
        from verl.utils.config import omega_conf_to_dataclass

        from selfplay.engine.losses import row_clip_loss

        config = omega_conf_to_dataclass(self._trainer.config.actor_rollout_ref.actor)
        self._trainer.actor_rollout_wg.set_loss_fn(partial(row_clip_loss, config=config))

    def reset_optimizer(self) -> None:
        """Forget the optimizer's moments, as between warm-up and reinforcement."""
        self._trainer.actor_rollout_wg.set_lr(0.0, True)

    def sync(self) -> None:
        """Send the actor's weights to the rollout servers."""
        with self.heartbeat.phase("sync"), self._naming_losses():
            self._trainer.send_weights()

    def save(self, folder: Path) -> None:
        """Write weights, optimizer and RNG of every rank under `folder`."""
        with self.heartbeat.phase("save"), self._naming_losses():
            self._trainer.actor_rollout_wg.save_checkpoint(str(folder), None, self._trainer.global_steps)

    def load(self, folder: Path, step: int | None = None) -> None:
        """Read what `save` wrote, and sync; `step` sets the step counter, from which request seeds follow."""
        with self.heartbeat.phase("load"), self._naming_losses():
            self._trainer.actor_rollout_wg.load_checkpoint(str(folder))
        if step is not None:
            self._trainer.global_steps = step
        self.sync()

    def anchor_reference(self) -> None:
        """Make the present policy the reference of the KL term (`kl_coef` above 0), as after the warm-up."""
        self._trainer.actor_rollout_wg.anchor_reference()

    def export(self, folder: Path) -> str:
        """Write the policy's weights to `folder` in Hugging Face's names, whole or not at all; their SHA-256."""
        with self.heartbeat.phase("export"), self._naming_losses():
            digests: list[str] = self._trainer.actor_rollout_wg.export(str(folder))
        return digests[0]

    def refresh_frozen(self, folder: Path) -> None:
        """Give the frozen group the weights that `export` wrote to `folder`."""
        import ray

        frozen = self._trainer.frozen
        if frozen is None:
            raise EngineError("this session has no frozen-model server")
        with self.heartbeat.phase("refresh the anchor"), self._naming_losses():
            ray.get(frozen.handle.collective_rpc.remote("load_folder", args=(str(folder),)))
            ray.get(frozen.handle.clear_kv_cache.remote())  # computed with the old weights

    def set_step(self, step: int) -> None:
        """Number of the next step; the request seeds follow from it."""
        self._trainer.global_steps = step

    def reseed(self, seed: int) -> None:
        """Seed every rank's generators."""
        self._trainer.actor_rollout_wg.seed(seed)

    def digest(self) -> list[dict[str, str]]:
        """sha256 of weights and optimizer, one entry a rank."""
        digests: list[dict[str, str]] = self._trainer.actor_rollout_wg.state_digest()
        return digests

    def perturb(self, scale: float) -> None:
        """Break the agreement of actor and servers on purpose; only the test of the weight sync does."""
        self._trainer.actor_rollout_wg.perturb(scale)

    def generate(
        self,
        prompts: Sequence[list[int]],
        *,
        max_tokens: int,
        seed_key: Sequence[Any],
        temperature: float = 1.0,
        top_p: float = 1.0,
        frozen: bool = False,
        seed: int | None = None,
    ) -> list[Sample]:
        """One sample per prompt (repeat a prompt for more), from the policy or the frozen group.

        The draws follow from the session's seed, or from `seed`, and from `seed_key`.
        """

        def piece(ids: list[int]) -> Callable[[Sampler], Awaitable[Sample]]:
            return lambda sampler: sampler.sample(ids, max_tokens=max_tokens, key=(), frozen=frozen)

        return self.run_all(
            [piece(ids) for ids in prompts],
            seed_key=seed_key,
            temperature=temperature,
            top_p=top_p,
            at_once=max(1, len(prompts)),
            seed=seed,
        )

    def run_all(
        self,
        work: Sequence[Callable[[Sampler], Awaitable[T]]],
        *,
        seed_key: Sequence[Any],
        temperature: float = 1.0,
        top_p: float = 1.0,
        on_done: Callable[[int, T], None] | None = None,
        at_once: int = 256,
        names: Sequence[str] | None = None,
        seed: int | None = None,
    ) -> list[T]:
        """Run the driver's own sampling, `at_once` pieces of it at a time.

        The draws of a piece follow from the session's seed (or `seed`), `seed_key` and its name, which is its place
        unless `names` are given. `on_done(place, result)` is called as soon as a piece is ready. Results are in the
        order of `work`.
        """
        from selfplay.engine.sampling import ClientSampler, run_pieces

        client, base, done = self._trainer.get_llm_client(), self.seed if seed is None else seed, 0
        params = {"temperature": temperature, "top_p": top_p, "logprobs": True}

        def sampler_of(place: int) -> Sampler:
            name = names[place] if names else place
            return ClientSampler(client, self.tokenizer, params, (base, *seed_key, name))

        def count(place: int, result: T) -> None:
            nonlocal done
            done += 1
            self.heartbeat.beat("rollouts", done, len(work))
            if on_done is not None:
                on_done(place, result)

        with self._naming_losses():
            return asyncio.run(run_pieces(work, sampler_of, count, at_once))

    def score(self, token_ids: list[int]) -> tuple[list[float], list[float]]:
        """Log-probs of tokens 1.. of a text, by the actor and by the rollout server: equal after a sync."""
        from verl.utils import tensordict_utils as tu

        from selfplay.engine.sft import sequences

        batch = sequences([(token_ids[:1], token_ids[1:])] * self.cluster.world_size)
        tu.assign_non_tensor(batch, calculate_entropy=False, compute_loss=False, temperature=1.0)
        log_probs = self._trainer.actor_rollout_wg.compute_log_prob(batch)["log_probs"].unbind()[0]
        client = self._trainer.get_llm_client()

        async def ask() -> Any:
            params = {"temperature": 1.0, "prompt_logprobs": 0, "max_tokens": 1}
            return await client.generate(request_id=uuid4().hex, prompt_ids=token_ids, sampling_params=params)

        out = asyncio.run(ask())
        served = [entry[0] for entry in out.extra_fields["prompt_logprobs"]]
        return log_probs[:-1].tolist(), served[: len(token_ids) - 1]


__all__ = ["EpisodeSpec", "RolloutFailed", "Session", "StepResult"]
