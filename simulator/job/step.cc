#include "simulator/job/step.h"

#include <algorithm>

namespace headroom {

const char* name(PhaseKind kind) {
  constexpr const char* kNames[] = {
      "init",          "engine_init", "load",          "generate",    "reward",
      "actor_logprob", "ref_logprob", "critic_values", "train_actor", "train_critic",
      "weight_sync",   "sleep",       "wake",          "validate",    "save_checkpoint",
      "empty_cache"};
  return kNames[static_cast<int>(kind)];
}

bool runs_in(const PhaseSpec& phase, int step, int steps) {
  const auto due = [&](int s) {
    return s >= phase.when.from && (s + 1 + phase.when.shift) % phase.when.every == 0;
  };
  if (due(step)) return true;
  if (step + 1 != steps) return false;
  for (int s = 0; s < steps; ++s)
    if (due(s)) return false;
  return true;
}

}  // namespace headroom
