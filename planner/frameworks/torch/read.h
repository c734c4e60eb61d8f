#pragma once

#include "planner/frameworks/registry.h"

namespace headroom::torch {

/// The plain PyTorch loop (`--framework torch`): PPO or GRPO with Transformers models, one process a GPU,
/// `generate` for responses; or SFT, DPO and reward models on given sequences. A job is a map of keys, alone or
/// as the `case` of a recording (of which then only `case`, `device`, `total_memory` and `alloc_conf` are read).
/// docs/TORCH_LOOP.md explains every key; `known_keys` in settings.h lists them.
bool detect(const JobInput& input);
Result<ReadJob> read(const JobInput& input, const JobOptions& options);

}  // namespace headroom::torch
