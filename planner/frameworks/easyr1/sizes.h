#pragma once

#include "planner/frameworks/sizes.h"

namespace headroom::easyr1 {

/// The numbers of a run, by their keys.
inline constexpr SizeKey kSizes[] = {
    {"prompt_length", "data.max_prompt_length"},
    {"response_length", "data.max_response_length"},
    {"samples", "worker.rollout.n"},
    {"batch", "data.rollout_batch_size"},
    {"mini_batch", "worker.actor.global_batch_size"},
    {"critic_mini_batch", "worker.critic.global_batch_size"},
    {"epochs", "worker.actor.ppo_epochs"},
};

}  // namespace headroom::easyr1
