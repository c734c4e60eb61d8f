#pragma once

#include "planner/frameworks/sizes.h"

namespace headroom::openrlhf {

/// The numbers of a run, by their keys.
inline constexpr SizeKey kSizes[] = {
    {"prompt_length", "prompt_max_len"},
    {"response_length", "generate_max_len"},
    {"response_length", "max_new_tokens"},
    {"response_length", "rollout.max_new_tokens"},
    {"sequence_length", "max_len"},
    {"sequence_length", "data.max_len"},
    {"samples", "n_samples_per_prompt"},
    {"samples", "rollout.n_samples_per_prompt"},
    {"batch", "rollout_batch_size"},
    {"batch", "rollout.batch_size"},
    {"batch", "train_batch_size"},
    {"batch", "train.batch_size"},
    {"mini_batch", "train_batch_size"},
    {"mini_batch", "train.batch_size"},
    {"lora_rank", "lora_rank"},
    {"lora_rank", "ds.lora.rank"},
};

}  // namespace headroom::openrlhf
