#pragma once

#include "planner/frameworks/registry.h"

namespace headroom::chatlearn {

/// ChatLearn 1.2 and later: the YAML of a GRPO run (`runtime_args`, `models`) with overrides, on FSDP or
/// Megatron-Core trainers, vLLM or SGLang. The RLHF files of releases up to 1.0.3 (`runtime_env`, `models`
/// with `model_config_file`) are recognised and refused by name.
bool detect(const JobInput& input);
Result<ReadJob> read(const JobInput& input, const JobOptions& options);

/// See Framework.
std::vector<Knob> knobs(const ReadJob& read);
Result<Job> with(const ReadJob& read, std::span<const Choice> choices);
Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices);

}  // namespace headroom::chatlearn
