#pragma once

#include "planner/frameworks/sizes.h"

namespace headroom::nemo_rl {

/// The numbers of a run, by their keys.
inline constexpr SizeKey kSizes[] = {
    {"prompt_length", "data.max_input_seq_length"},
    {"response_length", "policy.generation.max_new_tokens"},
    {"sequence_length", "policy.max_total_sequence_length"},
    {"samples", "grpo.num_generations_per_prompt"},
    {"samples", "ppo.num_generations_per_prompt"},
    {"samples", "distillation.num_generations_per_prompt"},
    {"batch", "grpo.num_prompts_per_step"},
    {"batch", "ppo.num_prompts_per_step"},
    {"batch", "distillation.num_prompts_per_step"},
    {"batch", "policy.train_global_batch_size"},
    {"mini_batch", "policy.train_global_batch_size"},
    {"micro_batch", "policy.train_micro_batch_size"},
    {"log_prob_micro_batch", "policy.logprob_batch_size"},
};

}  // namespace headroom::nemo_rl
