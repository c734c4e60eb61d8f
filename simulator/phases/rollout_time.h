#pragma once

#include "simulator/engine/account.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"
#include "simulator/time/seconds.h"

namespace headroom {

/// Seconds that an engine takes to generate a step's responses.
///
/// Prompts are read once (their n samples share the prefix) at the matrix rate. Then a step a token: the
/// scheduler on the host; the weights that the batch needs and the cache of all running sequences read once;
/// products; two all-reduces a layer over tensor ranks; sampling. Without CUDA graphs every kernel is
/// dispatched. Sequences beyond what runs at once wait for others to end. Lengths: the job's mean response
/// where known, ending at random up to the cap; else all at the cap.
Seconds rollout_seconds(const Job& job, const Engine& engine, const engine::Account& account,
                        const Hardware& hardware);

/// Parameters that one token of a model meets, and those that `tokens` tokens meet together: of routed
/// experts those that are chosen.
double parameters_met(const Architecture& model, double tokens);

}  // namespace headroom
