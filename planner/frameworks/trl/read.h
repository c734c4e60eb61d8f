#pragma once

#include "planner/frameworks/registry.h"

namespace headroom::trl {

/// TRL's GRPOTrainer (1.9) without a serving engine, on one GPU (`--framework trl`). A job is a map of the
/// keys below, alone or as the `case` of a recording (of which then only `case`, `device`, `total_memory` and
/// `alloc_conf` are read).
///
/// trainer: grpo. model: config.json values. batch (or per_device_train_batch_size). accum (or
/// gradient_accumulation_steps). steps_per_generation: micro-batches that one generation fills (accum).
/// prompt, response (or max_completion_length): tokens. steps (or max_steps): optimizer steps.
/// num_generations, num_iterations: numbers. beta: the KL coefficient; a reference model (with lora: the
/// adapters off) when not 0. dtype: float32 | bfloat16, of the loaded weights. bf16: autocast (true). lora:
/// rank; lora_targets: names of layers (all-linear). grad_ckpt (or gradient_checkpointing): flag. optim:
/// adamw_torch_fused | adamw_torch. loss_type: dapo | grpo | bnpo | dr_grpo, of one size.
///
/// Errors name the key; so do those for what is not modelled: other trainers, use_vllm, use_liger_kernel,
/// fp16, torch_empty_cache_steps, a temperature other than 1.
bool detect(const JobInput& input);
Result<ReadJob> read(const JobInput& input, const JobOptions& options);

}  // namespace headroom::trl
