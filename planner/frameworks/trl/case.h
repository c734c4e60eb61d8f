#pragma once

#include "planner/frameworks/registry.h"

namespace headroom::trl {

/// TRL's GRPOTrainer and its experimental PPOTrainer (1.9) without a serving engine, on one GPU, as a flat
/// map of the keys below, alone or as the `case` of a recording (of which then only `case`, `device`,
/// `total_memory` and `alloc_conf` are read). Each training step is a step of the job.
///
/// Of both: trainer: grpo (default) | ppo. model: config.json values. batch (or per_device_train_batch_size).
/// accum (or gradient_accumulation_steps). prompt: tokens. dtype: float32 | bfloat16 |
/// float16, of the loaded weights.
/// optim: adamw_torch_fused | adamw_torch. temperature: of generation (1; PPO: 0.7).
///
/// GRPO: steps_per_generation: micro-batches that one generation fills (accum). response (or
/// max_completion_length): tokens. steps (or max_steps): optimizer steps. num_generations, num_iterations:
/// numbers. beta: the KL coefficient; a reference model (with lora: the adapters off) when not 0. bf16:
/// autocast (true). lora: rank; lora_targets: names of layers (all-linear). grad_ckpt (or
/// gradient_checkpointing): flag. loss_type: dapo | grpo | bnpo | dr_grpo, of one size.
///
/// Rows of a training step, calls within calls: generate, old_logprob (where completions outlive an update;
/// with adapters and beta of the name ref_logprob), ref_logprob and reward in rollout, rollout in train_step;
/// forward_logps in loss_forward, which with backward is in train_step; optimizer_step; train_actor covers
/// all.
///
/// PPO: response (or response_length): tokens. steps: updates of batch times accum sequences (or
/// total_episodes: sequences). epochs (or num_ppo_epochs): 1. num_mini_batches: 1. rollout_batch (or
/// local_rollout_forward_batch_size): 64, sequences of a generation and of each scoring. dataset: its prompts
/// (32): with its last ones Accelerate ends an accumulation. All four models have the shape of `model`; the
/// trainer uses neither autocast nor checkpointing, whatever bf16 and grad_ckpt say. Rows: generate,
/// ref_logprob, critic_values and reward (of all chunks), forward_policy_value, backward and optimizer_step
/// (of all micro-batches), and train_actor, which covers the last three and what lies between them.
///
/// Two spellings of one setting with different values are an error, unless `--set` gives one of them.
/// A key of the other trainer is a warning: it has no effect. Errors name the key; so do those for what is
/// not modelled: other trainers, use_vllm, use_liger_kernel, fp16, torch_empty_cache_steps, whiten_rewards,
/// num_sample_generations.
bool is_case(const JobInput& input);
Result<ReadJob> read_case(const JobInput& input, const JobOptions& options);

}  // namespace headroom::trl
