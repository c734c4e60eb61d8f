#pragma once

#include <string>

namespace headroom::verl {

// Where the keys of a worker stand.
inline const std::string kActor = "actor_rollout_ref.actor.", kRef = "actor_rollout_ref.ref.",
                         kRollout = "actor_rollout_ref.rollout.", kModel = "actor_rollout_ref.model.";

}  // namespace headroom::verl
