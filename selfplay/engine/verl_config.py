"""Our settings as verl's configuration: the one place that knows verl's key names."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from selfplay.engine.config import ClusterConfig
from selfplay.engine.policy import PolicySpec, bucket_mib
from selfplay.engine.startup import router_yaml
from selfplay.engine.trainer import TRAINER_NAME


def verl_config(policy: PolicySpec, cluster: ClusterConfig, agent_yaml: Path, seed: int) -> DictConfig:
    """verl's `ppo_trainer` configuration for `policy` on `cluster`, with the episodes listed in `agent_yaml`."""
    from hydra import compose, initialize_config_module

    overrides = _model(policy, cluster) + _actor(policy, cluster, seed) + _rollout(policy, cluster, agent_yaml, seed)
    overrides += _trainer(policy, cluster)
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=overrides)


def _flag(value: bool) -> str:
    return "True" if value else "False"


def _model(policy: PolicySpec, cluster: ClusterConfig) -> list[str]:
    prefix = "actor_rollout_ref.model"
    attention = "sdpa" if cluster.device == "cpu" else "flash_attention_2"
    lora = [
        f"{prefix}.lora_rank={policy.lora_rank}",
        f"{prefix}.lora_alpha={policy.lora_alpha}",
        f"{prefix}.target_modules=all-linear",  # attention and MLP projections
        f"{prefix}.lora.merge=True",  # the servers get whole weights: our sync takes no adapters
    ]
    return (lora if policy.lora_rank else []) + [
        f"{prefix}.path='{policy.model_path}'",
        f"+{prefix}.override_config.attn_implementation={attention}",
        f"{prefix}.use_remove_padding={_flag(cluster.fsdp.remove_padding)}",
        f"{prefix}.enable_gradient_checkpointing={_flag(cluster.fsdp.gradient_checkpointing)}",
        f"{prefix}.trust_remote_code={_flag(policy.trust_remote_code)}",
        f"data.trust_remote_code={_flag(policy.trust_remote_code)}",
        f"{prefix}.external_lib=selfplay.engine.workers",
    ]


def _actor(policy: PolicySpec, cluster: ClusterConfig, seed: int) -> list[str]:
    actor, ref = "actor_rollout_ref.actor", "actor_rollout_ref.ref"
    dtype = {"float32": "fp32", "bfloat16": "bf16"}[cluster.fsdp.dtype]
    out = [
        f"{actor}.strategy=fsdp2",
        f"{actor}.use_torch_compile=False",
        f"{actor}.optim.lr=1e-6",  # the driver sets the learning rate before every update
        f"{actor}.optim.weight_decay={policy.weight_decay}",
        f"{actor}.optim.clip_grad={policy.grad_clip}",
        f"{actor}.optim.lr_warmup_steps=0",
        f"{actor}.ppo_mini_batch_size=1",
        f"{actor}.ppo_epochs={policy.update_epochs}",
        f"{actor}.use_dynamic_bsz=True",
        f"{actor}.ppo_max_token_len_per_gpu={cluster.fsdp.max_tokens_per_rank}",
        f"{actor}.use_kl_loss={_flag(policy.kl_coef > 0)}",
        f"{actor}.kl_loss_coef={policy.kl_coef}",
        f"{actor}.kl_loss_type=low_var_kl",
        f"{actor}.entropy_coeff={policy.entropy_coef}",
        f"{actor}.clip_ratio={policy.clip_ratio}",
        f"{actor}.clip_ratio_low={policy.clip_ratio}",
        f"{actor}.clip_ratio_high={policy.clip_ratio}",
        f"{actor}.loss_agg_mode=token-mean",
        f"{actor}.data_loader_seed={seed}",
        f"{ref}.log_prob_use_dynamic_bsz=True",
        f"{ref}.log_prob_max_token_len_per_gpu={cluster.fsdp.max_tokens_per_rank}",
    ]
    for engine in (actor, ref):
        out += [
            f"{engine}.fsdp_config.strategy=fsdp2",
            f"{engine}.fsdp_config.use_torch_compile=False",
            f"{engine}.fsdp_config.param_offload={_flag(cluster.fsdp.offload)}",
            f"+{engine}.fsdp_config.mixed_precision.param_dtype={dtype}",
            f"+{engine}.fsdp_config.mixed_precision.reduce_dtype=fp32",
            f"+{engine}.fsdp_config.mixed_precision.buffer_dtype=fp32",
        ]
    out.append(f"{actor}.fsdp_config.optimizer_offload={_flag(cluster.fsdp.offload)}")
    return out


def _rollout(policy: PolicySpec, cluster: ClusterConfig, agent_yaml: Path, seed: int) -> list[str]:
    prefix, rollout = "actor_rollout_ref.rollout", cluster.rollout
    on_cpu = cluster.device == "cpu"
    out = [
        f"{prefix}.name=vllm",
        f"{prefix}.mode=async",
        f"{prefix}.n=1",  # a task says how many sessions it wants
        f"{prefix}.seed={seed}",
        f"{prefix}.temperature={policy.temperature}",
        f"{prefix}.top_p={policy.top_p}",
        f"{prefix}.dtype={rollout.dtype}",
        f"{prefix}.load_format=dummy",  # the first weight sync fills it
        f"{prefix}.enforce_eager={_flag(rollout.enforce_eager)}",
        f"{prefix}.free_cache_engine={_flag(not on_cpu)}",
        f"{prefix}.tensor_model_parallel_size={rollout.tensor_parallel}",
        f"{prefix}.gpu_memory_utilization={0.1 if on_cpu else rollout.gpu_memory_utilization}",
        f"{prefix}.prompt_length={policy.max_prompt}",
        f"{prefix}.response_length={policy.max_response}",
        f"{prefix}.max_model_len={policy.max_prompt + policy.max_response}",
        f"{prefix}.max_num_batched_tokens={max(rollout.max_num_batched_tokens, policy.max_prompt)}",
        f"{prefix}.max_num_seqs={rollout.max_num_seqs}",
        # After a part of a prompt vLLM 0.28 rewinds the request's generator, and one on the CPU cannot be rewound.
        f"{prefix}.enable_chunked_prefill={_flag(not on_cpu)}",
        f"{prefix}.calculate_log_probs=True",
        f"{prefix}.log_prob_use_dynamic_bsz=True",
        f"{prefix}.log_prob_max_token_len_per_gpu={cluster.fsdp.max_tokens_per_rank}",
        f"{prefix}.agent.num_workers={rollout.agent_workers}",
        f"{prefix}.agent.agent_loop_config_path='{agent_yaml}'",
    ]
    if policy.frozen_model is not None and not on_cpu:
        out.append(f"+{prefix}.engine_kwargs.vllm.worker_extension_cls=selfplay.engine.vllm_extension.FrozenWeights")
    if cluster.world_size == rollout.tensor_parallel:  # one server
        out.append(f"{prefix}.router_config_path='{router_yaml(agent_yaml.parent)}'")
    if on_cpu:
        out += [
            f"+{prefix}.enable_sleep_mode=False",
            f"{prefix}.checkpoint_engine.update_weights_bucket_megabytes={bucket_mib(policy.model_path)}",
            f"+{prefix}.engine_kwargs.vllm.worker_extension_cls=selfplay.engine.vllm_extension.CpuWeightSync",
            f"+{prefix}.engine_kwargs.vllm.distributed_executor_backend=uni",
            f"+{prefix}.engine_kwargs.vllm.kv_cache_memory_bytes={rollout.kv_cache_mib * 2**20}",
        ]
    return out


def _trainer(policy: PolicySpec, cluster: ClusterConfig) -> list[str]:
    anchor = cluster.anchor
    out = [
        "algorithm.adv_estimator=grpo",  # unused: the algorithm computes its own advantages
        "algorithm.use_kl_in_reward=False",
        f"data.max_prompt_length={policy.max_prompt}",
        f"data.max_response_length={policy.max_response}",
        "data.train_batch_size=1",
        "reward.num_workers=0",  # rewards come with the rows
        "trainer.use_v1=True",
        f"trainer.v1.trainer_mode={TRAINER_NAME}",
        "trainer.v1.sampler.custom_sampler.path=pkg://selfplay.engine.replay",
        "trainer.v1.sampler.custom_sampler.name=StrictReplayBuffer",
        f"trainer.device={cluster.device}",
        f"trainer.n_gpus_per_node={cluster.ranks_per_node}",
        f"trainer.nnodes={cluster.nodes}",
        "trainer.logger=[]",
        "trainer.val_before_train=False",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
        "trainer.resume_mode=disable",
    ]
    if policy.frozen_model is not None:
        out += [
            f"+trainer.frozen_model='{policy.frozen_model}'",
            f"+trainer.frozen_placement={anchor.placement}",
            f"+trainer.frozen_memory={anchor.gpu_memory_utilization}",
        ]
    return out
