#pragma once

#include "planner/frameworks/registry.h"

namespace headroom::colossalchat {

/// ColossalChat's command lines and scripts (`--framework colossalchat`): Coati's `train_prompts.py`, `train_sft.py`,
/// `train_reward_model.py` and its benchmark with `--strategy`, and the programs since 0.3.7 with `--plugin`:
/// `train_ppo.py`, `train_grpo.py`, `train_sft.py`, `train_rm.py`, `train_dpo.py`, `train_orpo.py`, `train_kto.py`.
///
/// The release is the newest that has every flag; `headroom.versions.colossalai` states another. GPUs come from the
/// launcher (`torchrun`, `colossalai run`).
bool detect(const JobInput& input);
Result<ReadJob> read(const JobInput& input, const JobOptions& options);

std::vector<Knob> knobs(const ReadJob& read);
Result<Job> with(const ReadJob& read, std::span<const Choice> choices);
Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices);

}  // namespace headroom::colossalchat
