#pragma once

#include "planner/frameworks/registry.h"

namespace headroom::deepspeed_chat {

/// DeepSpeed-Chat (`--framework deepspeed-chat`). Command lines and scripts of its three steps (`deepspeed main.py …`;
/// supervised.h, ppo.h) are read with knobs. The third step, PPO with four DeepSpeed engines on every GPU, is read as
/// a map of keys too, without the hybrid engine. A job is a map of the keys below, alone or as the `case` of a recording (of
/// which then only `case`, `device`, `total_memory` and `alloc_conf` are read).
///
/// actor, critic: config.json values (reference and reward have the same). dtype: fp16 | bf16. zero_stage:
/// 0 to 3, of actor and critic; reference and reward hold whole weights, at stage 3 they are spread too.
/// offload: the optimizer on the host, at stage 3 the trained engines' weights too.
/// fp16_extra: {initial_scale_power: n}. batch (of a GPU), prompt, response, steps: numbers. grad_ckpt: flag.
/// empty_cache: none | inference | all. world: GPUs (2).
/// offload_reference_model, offload_reward_model: their weights on the host, at stage 3.
/// fp16_extra.loss_scale: a static scale, under which no step overflows. Keys of DeepSpeed's
/// zero_optimization, alone or in `zero_extra`: reduce_bucket_size, allgather_bucket_size (which takes no
/// memory), overlap_comm (true), contiguous_gradients, and the trained engines' stage3_prefetch_bucket_size
/// (3e7), stage3_max_live_parameters (3e7), stage3_param_persistence_threshold (1e4, all engines'),
/// stage3_max_reuse_distance.
///
/// actor_lora_dim, critic_lora_dim: ranks of adapters on every linear of the layers; only_optimize_lora: flag.
///
/// A key both alone and in `zero_extra` with different values is an error.
///
/// Errors name the key; so do those for what a map does not state: gradient accumulation, several generation
/// batches, the hybrid engine, EMA, compute_fp32_loss, sub_group_size.
bool detect(const JobInput& input);
Result<ReadJob> read(const JobInput& input, const JobOptions& options);

std::vector<Knob> knobs(const ReadJob& read);
Result<Job> with(const ReadJob& read, std::span<const Choice> choices);
Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices);
/// The script with flags changed. Errors: a map of the third step, which has no knobs.
Result<std::string> write(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header);

}  // namespace headroom::deepspeed_chat
