"""Ranges and combinations that types cannot say. Each component checks itself; what spans two of them is here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from selfplay.algos.anchorloop.config import AnchorLoopConfig
from selfplay.algos.benchevolver.config import BenchEvolverConfig
from selfplay.config.schema import Config
from selfplay.engine.memory import Estimate, adapters_share, estimate, refusal, shape_of

ROLES = ("proposer", "solver")
PROVERS = ("dafny", "dafny_lite", "verus")


def problems(config: Config) -> list[str]:
    """Everything wrong with `config`, as `full.key: reason`; empty if it can run."""
    return [*own_checks(config), *_across(config)]


def own_checks(node: Any, prefix: str = "") -> Iterator[str]:
    """What the `check()` of each dataclass raises, outermost first, with the key made full."""
    if hasattr(node, "check"):
        try:
            node.check()
        except ValueError as error:
            yield prefix + str(error)
    for item in fields(node):
        value = getattr(node, item.name)
        if is_dataclass(value):
            yield from own_checks(value, f"{prefix}{item.name}.")


def _across(config: Config) -> Iterator[str]:
    """Combinations of components that cannot work."""
    sandboxes, checks = KINDS.get(type(config.algo), (PROVERS, _ancora))
    if config.sandbox.name not in sandboxes:
        allowed = f"{', '.join(sandboxes[:-1])} or {sandboxes[-1]}" if len(sandboxes) > 1 else sandboxes[0]
        yield f"sandbox: {config.sandbox.name!r} is not allowed with algo={config.algo.name}; it is {allowed}"
        return
    yield from checks(config)
    longest = config.algo.max_prompt_tokens + config.algo.max_response()
    for key, tokens in (
        ("cluster.rollout.max_num_batched_tokens", config.cluster.rollout.max_num_batched_tokens),
        ("cluster.fsdp.max_tokens_per_rank", config.cluster.fsdp.max_tokens_per_rank),
    ):
        if tokens < longest:
            yield f"{key}: {tokens} is not allowed; it must be at least {longest}, the longest prompt with its answer"
    yield from _memory(config)


def memory_of(config: Config) -> Estimate | None:
    """What a card would hold; None on a CPU, for a model of unknown shape, or where no model is trained."""
    algo = config.algo
    if config.cluster.device == "cpu" or (isinstance(algo, BenchEvolverConfig) and not algo.needs_policy):
        return None
    shape = shape_of(config.backbone)
    if shape is None:
        return None
    rank = algo.rl.lora_rank if isinstance(algo, BenchEvolverConfig) else 0
    kl = 0.0 if isinstance(algo, BenchEvolverConfig) else algo.optim.kl_coef
    anchor = isinstance(algo, AnchorLoopConfig)
    return estimate(shape, config.cluster, trained_share=adapters_share(shape, rank), reference=kl > 0, anchor=anchor)


def _memory(config: Config) -> Iterator[str]:
    found = memory_of(config)
    if found is not None and (why := refusal(found, config.algo.max_prompt_tokens + config.algo.max_response())):
        yield f"cluster: {config.cluster.name!r} is not allowed with backbone={config.backbone.name}; {why}"


def _anchorloop(config: Config) -> Iterator[str]:
    algo: AnchorLoopConfig = config.algo
    room = config.backbone.max_positions - algo.max_prompt_tokens
    for role in (algo.curriculum, algo.executor):
        key = f"algo.{'curriculum' if role is algo.curriculum else 'executor'}.rollouts.max_tokens"
        tokens = role.rollouts.max_tokens
        if config.backbone.kind == "tiny" and tokens > room:
            yield (
                f"{key}: {tokens} is not allowed; it must be at most {room}, which algo.max_prompt_tokens="
                f"{algo.max_prompt_tokens} leaves of backbone.max_positions={config.backbone.max_positions}"
            )
    yield from _demonstrated(config)


def _benchevolver(config: Config) -> Iterator[str]:
    algo: BenchEvolverConfig = config.algo
    evolution = algo.evolution
    room = config.backbone.max_positions - algo.max_prompt_tokens
    for key, tokens in (
        ("rl.max_tokens", algo.rl.max_tokens),
        ("eval.max_tokens", algo.eval.max_tokens),
        ("evolution.max_tokens", evolution.max_tokens),
        ("evolution.validation.max_tokens", evolution.validation.max_tokens),
        ("evolution.panel.max_tokens", evolution.panel.max_tokens),
    ):
        if config.backbone.kind == "tiny" and tokens > room:
            yield (
                f"algo.{key}: {tokens} is not allowed; it must be at most {room}, which algo.max_prompt_tokens="
                f"{algo.max_prompt_tokens} leaves of backbone.max_positions={config.backbone.max_positions}"
            )
    if algo.needs_policy:
        yield from _demonstrated(config)


def _demonstrated(config: Config) -> Iterator[str]:
    """A warm-up on generated demonstrations, which are for compact prompts."""
    warmup, ranks = config.algo.warmup, config.cluster.world_size
    if not warmup.steps:
        return
    if warmup.batch_size % ranks:
        yield f"algo.warmup.batch_size: {warmup.batch_size} is not allowed; it must be a multiple of {ranks} ranks"
    if config.backbone.prompts != "compact":
        yield (
            f"algo.warmup.steps: {warmup.steps} is not allowed with backbone.prompts={config.backbone.prompts};"
            " the demonstrations are for compact prompts"
        )


def _ancora(config: Config) -> Iterator[str]:
    """A prompt with its answer must fit wherever it goes, and the rest."""
    algo = config.algo
    if config.sandbox.name == "verus":
        for key, value in (("algo.roots", algo.roots), ("algo.eval.heldout", algo.eval.heldout)):
            if not value:
                yield f"{key}: '' is not allowed with sandbox=verus; what ships is Dafny: give a file"
    yield from _warm_up(config)
    if algo.freeze != "none" and (algo.optim.kl_coef > 0 or algo.optim.entropy_coef != 0):
        yield (
            f"algo.freeze: {algo.freeze!r} is not allowed with algo.optim.kl_coef or algo.optim.entropy_coef;"
            " their terms of the loss would train the frozen part"
        )
    prompt = algo.max_prompt_tokens
    answers = {f"algo.{role}.max_tokens": getattr(algo, role).max_tokens for role in ROLES if hasattr(algo, role)}
    if config.backbone.kind == "tiny":  # other backbones bring their own context length
        room = config.backbone.max_positions - prompt
        for key, answer in answers.items():
            if answer > room:
                yield (
                    f"{key}: {answer} is not allowed; it must be at most {room}, which algo.max_prompt_tokens={prompt}"
                    f" leaves of backbone.max_positions={config.backbone.max_positions}"
                )
        if algo.solver.repair_turns and algo.max_response() > room:
            yield (
                f"algo.solver.repair_turns: {algo.solver.repair_turns} is not allowed; all turns of an attempt take"
                f" {algo.max_response()} tokens, and {room} are left of"
                f" backbone.max_positions={config.backbone.max_positions}"
            )


def _warm_up(config: Config) -> Iterator[str]:
    warmup, ranks = config.algo.warmup, config.cluster.world_size
    if warmup.steps and warmup.batch_size % ranks:
        yield f"algo.warmup.batch_size: {warmup.batch_size} is not allowed; it must be a multiple of the {ranks} ranks"
    if warmup.rounds and warmup.distill.batch_size % ranks:
        yield (
            f"algo.warmup.distill.batch_size: {warmup.distill.batch_size} is not allowed; it must be a multiple of the"
            f" {ranks} ranks"
        )
    if warmup.steps == 0 or warmup.demos:
        return
    if warmup.n_demos < warmup.batch_size:
        yield f"algo.warmup.n_demos: {warmup.n_demos} is not allowed; it must be {warmup.batch_size} or more, a batch"
    if config.backbone.prompts != "compact":
        yield (
            f"algo.warmup.demos: '' is not allowed with backbone.prompts={config.backbone.prompts}; the generated"
            " demonstrations are for compact prompts: give a file, or algo.warmup.steps=0"
        )


# What a system runs its programs in, and the checks of its own; all others are ANCORA's.
KINDS: dict[type, tuple[tuple[str, ...], Callable[[Config], Iterator[str]]]] = {
    AnchorLoopConfig: (("python",), _anchorloop),
    BenchEvolverConfig: (("judge",), _benchevolver),
}
