#pragma once

#include "planner/frameworks/sizes.h"

namespace headroom::trl {

/// The numbers of a run, by their keys.
inline constexpr SizeKey kSizes[] = {
    {"prompt_length", "max_prompt_length"},
    {"prompt_length", "headroom.prompt_length"},
    {"response_length", "max_completion_length"},
    {"response_length", "response_length"},
    {"sequence_length", "max_length"},
    {"sequence_length", "max_seq_length"},
    {"samples", "num_generations"},
    {"batch", "per_device_train_batch_size"},
    {"accumulation", "gradient_accumulation_steps"},
    {"mini_batches", "num_mini_batches"},
    {"lora_rank", "lora_r"},
};

}  // namespace headroom::trl
