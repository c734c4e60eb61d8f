#include "simulator/job/step.h"

namespace headroom {

const char* name(PhaseKind kind) {
  constexpr const char* kNames[] = {
      "init",          "engine_init", "load",          "generate",    "reward",
      "actor_logprob", "ref_logprob", "critic_values", "train_actor", "train_critic",
      "weight_sync",   "sleep",       "wake",          "validate",    "save_checkpoint",
      "empty_cache"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace headroom
