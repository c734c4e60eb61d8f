#pragma once

#include "planner/frameworks/registry.h"

namespace headroom::trl {

/// TRL 0.12 to 1.9: a run of its GRPO, RLOO, PPO, DPO, SFT or reward trainer.
///
/// Forms: the command (`trl grpo --config x.yaml --lora_r 16`; `accelerate launch --config_file zero3.yaml
/// ppo.py ...`; `torchrun`, `python`), a script with it, or the trainer's YAML alone, whose keys tell the
/// trainer; files of Accelerate and DeepSpeed that either names are read too, or stand beside the YAML on
/// Headroom's own command line. Later wins: defaults of the release, Accelerate's file, the YAML, words,
/// `--set`. Accelerate's settings are keys below `accelerate.`, a DeepSpeed file's below `ds.`; what no file
/// of TRL's says (prompt lengths, the vLLM server's sizes) is below `headroom.`.
///
/// Errors name FILE:LINE and key: trainers that are not read, settings that stand in Python code, what TRL,
/// Transformers or Accelerate refuse at start-up.
///
/// A case file (case.h) is read too.
bool detect(const JobInput& input);
Result<ReadJob> read(const JobInput& input, const JobOptions& options);

std::vector<Knob> knobs(const ReadJob& read);
Result<Job> with(const ReadJob& read, std::span<const Choice> choices);
Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices);
Result<std::string> write(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header);

}  // namespace headroom::trl
