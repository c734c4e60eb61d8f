#pragma once

#include "simulator/engine/account.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"
#include "simulator/time/seconds.h"

namespace headroom {

/// Seconds that an engine takes to generate a step's responses (simulator/engine/generation): prompts are read
/// once, their n samples share the prefix; then a step a token. Where several steps' responses are generated at
/// the same time, one step's share.
Seconds rollout_seconds(const Job& job, const Engine& engine, const engine::Account& account,
                        const Hardware& hardware);

}  // namespace headroom
