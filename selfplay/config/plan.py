"""What `dry_run=true` prints: the settings, where each process would run, and the steps with their sizes."""

from __future__ import annotations

from collections.abc import Callable

from selfplay.algos.anchorloop.config import AnchorLoopConfig
from selfplay.algos.ancora.config import AncoraConfig, RejectionConfig
from selfplay.algos.benchevolver.config import BenchEvolverConfig
from selfplay.config.load import to_yaml
from selfplay.config.schema import Config
from selfplay.config.validate import memory_of
from selfplay.engine.config import ClusterConfig
from selfplay.engine.memory import lines


def describe(config: Config) -> str:
    """The whole plan. Nothing is started, built or written."""
    steps = STEPS[config.algo.name](config)
    parts = [
        "# settings",
        to_yaml(config).rstrip(),
        "",
        "# placement",
        *_table(placement(config.cluster, frozen=isinstance(config.algo, AnchorLoopConfig))),
        "",
        *memory(config),
        "# steps",
        *(f"{number}. {line}" for number, line in enumerate(steps, start=1)),
        "",
        f"# run directory: {config.output_dir}/{config.algo.name}/<timestamp>-{config.name} (resume={config.resume})",
    ]
    return "\n".join(parts)


def memory(config: Config) -> list[str]:
    """The estimate for one GPU; nothing on a CPU."""
    if config.cluster.device == "cpu":
        return []
    found = memory_of(config)
    unknown = ["not estimated: no model is trained, or its shape is not known"]
    return ["# memory of one GPU, estimated", *(lines(found) if found else unknown), ""]


def placement(cluster: ClusterConfig, frozen: bool) -> list[tuple[str, str]]:
    """Process groups and where they run; `frozen`: a server for a frozen model is one of them."""
    ranks, tensor_parallel = cluster.world_size, cluster.rollout.tensor_parallel
    cpu = cluster.device == "cpu"
    where = f"{cluster.nodes} machine{'s' if cluster.nodes > 1 else ''}"
    rank = f"{cluster.fsdp.threads} threads, gloo" if cpu else "one GPU each, nccl"
    shards = f", {tensor_parallel} GPUs each" if tensor_parallel > 1 else ""
    ray = f"joins {cluster.ray_address}" if cluster.ray_address else f"started here, {cluster.object_store_mib} MiB"
    return [
        ("driver", "1 process here: the algorithm, the curriculum, the runner of the trainer"),
        ("Ray", ray),
        ("FSDP ranks", f"{ranks} on {where} ({cluster.device}, {cluster.fsdp.dtype}, {rank})"),
        ("vLLM replicas", f"{ranks // tensor_parallel} ({cluster.device}, {cluster.rollout.dtype}{shards})"),
        ("frozen servers", _frozen(cluster) if frozen else "none"),
        ("agent-loop workers", f"{cluster.rollout.agent_workers} (sessions and the verifier)"),
    ]


def _frozen(cluster: ClusterConfig) -> str:
    if cluster.device == "cpu":
        return "1 x vLLM cpu"
    cards = f"{cluster.rollout.tensor_parallel} GPU{'s' if cluster.rollout.tensor_parallel > 1 else ''}"
    if cluster.anchor.placement == "dedicated":
        return f"1 x vLLM cuda, {cards} of its own"
    return f"1 x vLLM cuda, on {cards} of the first ranks ({cluster.anchor.gpu_memory_utilization:g} of the memory)"


def ancora_steps(config: Config) -> list[str]:
    """The phases of an ANCORA run. B seeds, N proposals for each, K attempts at each accepted proposal."""
    algo: AncoraConfig = config.algo
    seeds, proposals, attempts = algo.seeds_per_step, algo.proposals_per_seed, algo.attempts_per_spec
    rows = seeds * proposals
    phases = [f"backbone: {config.backbone.name} ({config.backbone.kind}), built or taken from the cache"]
    if algo.warmup.steps:
        phases.append(
            f"warm-up: {algo.warmup.steps} supervised steps of {algo.warmup.batch_size} sequences from"
            f" {algo.warmup.demos or f'{algo.warmup.n_demos} generated demonstrations'}, lr {algo.warmup.lr:g}"
        )
    distill = algo.warmup.distill
    if algo.warmup.rounds:
        phases.append(
            f"warm-up rounds 1 to {algo.warmup.rounds}: {distill.steps} steps of self-play each, then {distill.epochs}"
            f" epochs on their verified rollouts from the {distill.start} weights, lr {distill.lr:g}"
        )
    score = f"{algo.eval.samples} attempts at each specification of {algo.eval.heldout or 'the held-out roots'}"
    phases.append(f"evaluation before: {score}")
    if isinstance(algo, RejectionConfig):
        count, what = algo.rejection.specs_per_step, "roots" if algo.name == "rft" else "few-shot proposals"
        phases.append(
            f"rejection fine-tuning: {algo.steps} steps, lr {algo.optim.lr:g}; each takes {count} {what},"
            f" K={attempts} attempts at each specification, and {algo.rejection.epochs} epochs on those that"
            f" {config.sandbox.name} verifies"
        )
    else:
        phases.append(
            f"reinforcement: {algo.steps} steps, lr {algo.optim.lr:g}; each step selects B={seeds} seeds, writes"
            f" {rows} proposals (N={proposals} a seed) and up to {rows * attempts} attempts (K={attempts} a proposal),"
            f" so {rows} to {rows * (1 + attempts)} rows; {config.sandbox.name} judges; one update, one weight sync;"
            f" a checkpoint every {config.cluster.checkpoint.every}"
            + (f"; an evaluation every {algo.eval.every}" if algo.eval.every else "")
        )
    phases.append(f"evaluation after: {score}")
    return phases


def anchorloop_steps(config: Config) -> list[str]:
    """The phases of an AnchorLoop run."""
    algo: AnchorLoopConfig = config.algo
    curriculum, executor, group = algo.curriculum, algo.executor, algo.executor.group
    batch, groups = curriculum.prompts * curriculum.tasks_per_prompt, 2 if algo.uses_frontier else 1
    phases = [f"backbone: {config.backbone.name} ({config.backbone.kind}), built or taken from the cache"]
    if algo.warmup.steps:
        phases.append(
            f"warm-up: {algo.warmup.steps} supervised steps of {algo.warmup.batch_size} sequences from"
            f" {algo.warmup.n_demos} generated demonstrations, lr {algo.warmup.lr:g}"
        )
    tasks = algo.eval.heldout or "the held-out tasks"
    phases += [
        f"evaluation before: {algo.eval.samples} rollouts of the executor at each of {tasks}",
        f"{algo.iterations} iterations: the anchor becomes the executor"
        + (f" every {algo.anchor.refresh_every}" if algo.anchor.refresh_every else " never (it stays the backbone)"),
        f"  curriculum: {curriculum.steps} steps of {batch} tasks ({curriculum.prompts} prompts x"
        f" {curriculum.tasks_per_prompt}), each put to {groups} groups of G={group} of the frozen model;"
        f" lr {algo.optim.curriculum_lr:g}",
        f"  pool: {algo.pool.tasks} tasks, filter {algo.pool.filter}",
        f"  anchor: G={group} rollouts a task, {'once an iteration' if algo.anchor.cache else 'at every step'}"
        if algo.uses_anchor
        else "  anchor: not used",
        f"  executor: up to {executor.batches} batches of {executor.tasks_per_step} tasks x G={group},"
        f" {executor.inner_steps} steps each; alpha {executor.adpo.alpha:g}, lr {algo.optim.lr:g}",
        "evaluation after: as before",
    ]
    return phases


def benchevolver_steps(config: Config) -> list[str]:
    """The phases of a BenchEvolver run."""
    algo: BenchEvolverConfig = config.algo
    evolution, rl = algo.evolution, algo.rl
    roles = ", ".join(f"{role} {name}" for role, name in algo.roles.by_role().items())
    if algo.replay:
        return [f"search: again, from the log of {algo.replay}; no model, no engine"]
    phases = []
    if algo.needs_policy:
        phases.append(f"backbone: {config.backbone.name} ({config.backbone.kind}), built or taken from the cache")
        if algo.warmup.steps:
            phases.append(
                f"warm-up: {algo.warmup.steps} supervised steps of {algo.warmup.batch_size} sequences from"
                f" {algo.warmup.n_demos} generated demonstrations, lr {algo.warmup.lr:g}"
            )
        tasks = algo.eval.heldout or "the held-out tasks"
        phases.append(f"evaluation before: {algo.eval.samples} attempts at each of {tasks}")
    phases += [
        f"{algo.rounds} round{'s' if algo.rounds > 1 else ''} ({roles})",
        f"  search: seeds of {algo.seeds or 'the shipped set'}; those with accuracy {evolution.saturation:g} or more in"
        f" {evolution.panel.attempts} attempts take up to {evolution.steps} steps each, until {evolution.accepted}"
        f" tasks are accepted; {evolution.proposer}, memory {'on' if evolution.memory else 'off'}",
    ]
    if rl.steps:
        phases.append(
            f"  training: {' then '.join(rl.mixtures)}, each from the same start, {rl.steps} steps of B={rl.problems} x"
            f" G={rl.group}, lr {rl.lr:g}, {f'LoRA of rank {rl.lora_rank}' if rl.lora_rank else 'all weights'}; and an"
            " evaluation after each"
        )
    return phases


STEPS: dict[str, Callable[[Config], list[str]]] = {
    **dict.fromkeys(("ancora", "rft", "psv"), ancora_steps),
    **dict.fromkeys(("anchorloop", "agent0"), anchorloop_steps),
    "benchevolver": benchevolver_steps,
}


def _table(rows: list[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in rows)
    return [f"{name:<{width}}  {value}" for name, value in rows]
