#pragma once

#include "planner/frameworks/sizes.h"

namespace headroom::deepspeed_chat {

/// The numbers of a run, by their keys.
inline constexpr SizeKey kSizes[] = {
    {"prompt_length", "prompt"},
    {"prompt_length", "max_prompt_seq_len"},
    {"response_length", "response"},
    {"response_length", "max_answer_seq_len"},
    {"sequence_length", "max_seq_len"},
    {"batch", "batch"},
    {"batch", "per_device_generation_batch_size"},
    {"batch", "per_device_train_batch_size"},
    {"accumulation", "gradient_accumulation_steps"},
    {"gpus", "world"},
};

}  // namespace headroom::deepspeed_chat
