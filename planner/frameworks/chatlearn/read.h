#pragma once

#include "planner/frameworks/registry.h"

namespace headroom::chatlearn {

/// ChatLearn 1.2 and later: the YAML of a GRPO run (`runtime_args`, `models`) with overrides, on FSDP or
/// Megatron-Core trainers, vLLM or SGLang; and the RLHF runs of releases up to 1.0.3 (`runtime`, `models` with
/// `model_config_file`, rlhf/settings.h), from their main file or a script that starts one.
bool detect(const JobInput& input);
Result<ReadJob> read(const JobInput& input, const JobOptions& options);

/// See Framework.
std::vector<Knob> knobs(const ReadJob& read);
Result<Job> with(const ReadJob& read, std::span<const Choice> choices);
Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices);
Result<std::string> write(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header);
Result<std::string> write_script(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header);
Result<std::string> write_overrides(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header);

}  // namespace headroom::chatlearn
