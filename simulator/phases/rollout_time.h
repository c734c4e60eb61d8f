#pragma once

#include "simulator/engine/account.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"

namespace headroom {

/// Seconds that an engine takes to generate a step's responses at the capped lengths: prompts at the matrix
/// rate; then tokens in waves of as many sequences as run at once, each token reading the weights and the
/// cache of its wave, two all-reduces a layer with tensor parallelism. An estimate for ranking: schedulers
/// overlap and sequences end early.
double rollout_seconds(const Job& job, const Engine& engine, const engine::Account& account,
                       const Hardware& hardware);

}  // namespace headroom
