#pragma once

#include "planner/frameworks/sizes.h"

namespace headroom::verl {

/// The numbers of a run, by their keys.
inline constexpr SizeKey kSizes[] = {
    {"prompt_length", "data.max_prompt_length"},
    {"response_length", "data.max_response_length"},
    {"samples", "actor_rollout_ref.rollout.n"},
    {"batch", "data.train_batch_size"},
    {"mini_batch", "actor_rollout_ref.actor.ppo_mini_batch_size"},
    {"critic_mini_batch", "critic.ppo_mini_batch_size"},
    {"epochs", "actor_rollout_ref.actor.ppo_epochs"},
    {"lora_rank", "actor_rollout_ref.model.lora_rank"},
    {"lora_rank", "actor_rollout_ref.model.lora.rank"},
};

}  // namespace headroom::verl
