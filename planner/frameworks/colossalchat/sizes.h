#pragma once

#include "planner/frameworks/sizes.h"

namespace headroom::colossalchat {

/// The numbers of a run, by their keys.
inline constexpr SizeKey kSizes[] = {
    {"prompt_length", "max_input_len"},
    {"sequence_length", "max_length"},
    {"sequence_length", "max_len"},
    {"sequence_length", "max_seq_len"},
    {"samples", "num_generations"},
    {"batch", "experience_batch_size"},
    {"batch", "batch_size"},
    {"mini_batch", "train_batch_size"},
    {"text_batch", "ptx_batch_size"},
    {"lora_rank", "lora_rank"},
};

}  // namespace headroom::colossalchat
