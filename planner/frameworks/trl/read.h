#pragma once

#include "planner/frameworks/registry.h"

namespace headroom::trl {

/// TRL's GRPOTrainer (1.9) without a serving engine, on one GPU (`--framework trl`). A job is a map of the
/// keys below, alone or as the `case` of a recording (of which then only `case`, `device`, `total_memory` and
/// `alloc_conf` are read).
///
/// trainer: grpo. model: config.json values. batch: per_device_train_batch_size. accum:
/// gradient_accumulation_steps. prompt, response: tokens. steps: optimizer steps. num_generations,
/// num_iterations: numbers. beta: the KL coefficient; a reference model (with lora: the adapters off) when
/// not 0. dtype: float32 | bfloat16, of the loaded weights. lora: rank, on all linear layers. grad_ckpt:
/// flag.
bool detect(const JobInput& input);
Result<ReadJob> read(const JobInput& input, const JobOptions& options);

}  // namespace headroom::trl
