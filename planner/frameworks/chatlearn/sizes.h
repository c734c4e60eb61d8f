#pragma once

#include "planner/frameworks/sizes.h"

namespace headroom::chatlearn {

/// The numbers of a run, by their keys.
inline constexpr SizeKey kSizes[] = {
    {"prompt_length", "models.policy.max_prompt_tokens_length"},
    {"response_length", "models.policy.max_response_tokens_length"},
    {"response_length", "models.policy.args.max_new_tokens"},
    {"sequence_length", "models.policy.args.seq_length"},
    {"samples", "runtime_args.num_inference_per_prompt"},
    {"batch", "runtime_args.sample_per_episode"},
    {"batch", "runtime.sample_per_episode"},
    {"mini_batch", "runtime_args.train_global_batch_size"},
    {"mini_batch", "runtime.train_global_batch_size"},
    {"micro_batch", "runtime_args.train_micro_batch_size"},
    {"micro_batch", "runtime.train_micro_batch_size"},
};

}  // namespace headroom::chatlearn
