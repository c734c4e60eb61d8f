#pragma once

#include "planner/frameworks/registry.h"

namespace headroom::openrlhf {

/// OpenRLHF's programs by their command lines, in both dialects of flags (0.5.9 to 0.11): RL on Ray
/// (`openrlhf.cli.train_ppo_ray`), SFT, reward models and DPO under `deepspeed`. The other programs of old
/// releases (KTO, KD, process reward models, PPO without Ray) are refused by name.
bool detect(const JobInput& input);
Result<ReadJob> read(const JobInput& input, const JobOptions& options);

/// See Framework.
std::vector<Knob> knobs(const ReadJob& read);
Result<Job> with(const ReadJob& read, std::span<const Choice> choices);
Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices);

}  // namespace headroom::openrlhf
