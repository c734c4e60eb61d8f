#pragma once

#include "planner/frameworks/registry.h"

namespace headroom::nemo_rl {

/// NeMo RL's runs (0.2.1 to main): a configuration file with the parents that its `defaults:` name, and
/// overrides. Algorithms: GRPO (DAPO among it), PPO, DPO, SFT, reward models, distillation. Workers: FSDP2
/// (`dtensor_cfg`), Megatron-Core (`megatron_cfg`), FSDP1 of 0.2.
bool detect(const JobInput& input);
Result<ReadJob> read(const JobInput& input, const JobOptions& options);

/// See Framework.
std::vector<Knob> knobs(const ReadJob& read);
Result<Job> with(const ReadJob& read, std::span<const Choice> choices);
Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices);

}  // namespace headroom::nemo_rl
