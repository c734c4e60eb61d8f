#pragma once

#include "planner/frameworks/registry.h"

namespace headroom::torch {

/// The plain PyTorch loop (`--framework torch`): PPO or GRPO with Transformers models, one process a GPU,
/// `generate` for responses. A job is a map of the keys below, alone or as the `case` of a recording (of
/// which then only `case`, `device`, `total_memory` and `alloc_conf` are read).
///
/// actor, critic: config.json values. algo: ppo | grpo. precision: bf16 | fp16 | fp32 | amp | master | fsdp.
/// batch, micro_batch, logprob_micro_batch, prompt, response, steps, epochs: numbers. adam: foreach | fused |
/// loop. token_logprob: log_softmax | cross_entropy | logsumexp. grad_ckpt, reentrant, lora, lora_targets,
/// activation_offload, ems, empty_cache (none | inference | training | all), attn (sdpa | eager),
/// no_generate, pass_mask; with fsdp: cpu_offload, ref_offload, shard_frozen, reshard_after_forward, _world.
bool detect(const JobInput& input);
Result<ReadJob> read(const JobInput& input, const JobOptions& options);

}  // namespace headroom::torch
