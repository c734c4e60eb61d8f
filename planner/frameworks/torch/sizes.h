#pragma once

#include "planner/frameworks/sizes.h"

namespace headroom::torch {

/// The numbers of a run, by their keys.
inline constexpr SizeKey kSizes[] = {
    {"prompt_length", "prompt"},
    {"response_length", "response"},
    {"batch", "batch"},
    {"micro_batch", "micro_batch"},
    {"log_prob_micro_batch", "logprob_micro_batch"},
    {"epochs", "epochs"},
    {"lora_rank", "lora"},
    {"gpus", "_world"},
};

}  // namespace headroom::torch
