#pragma once

#include "planner/frameworks/sizes.h"

namespace headroom::jobfile {

/// The numbers of a run, by their keys.
inline constexpr SizeKey kSizes[] = {
    {"prompt_length", "batch.prompt_length"},
    {"response_length", "batch.response_length"},
    {"samples", "batch.samples"},
    {"batch", "batch.prompts"},
    {"mini_batch", "batch.mini_batch"},
};

}  // namespace headroom::jobfile
