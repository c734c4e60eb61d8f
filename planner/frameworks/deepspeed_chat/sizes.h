#pragma once

#include "planner/frameworks/sizes.h"

namespace headroom::deepspeed_chat {

/// The numbers of a run, by their keys.
inline constexpr SizeKey kSizes[] = {
    {"prompt_length", "prompt"},
    {"response_length", "response"},
    {"sequence_length", "max_seq_len"},
    {"batch", "batch"},
    {"batch", "per_device_train_batch_size"},
    {"accumulation", "gradient_accumulation_steps"},
    {"gpus", "world"},
};

}  // namespace headroom::deepspeed_chat
