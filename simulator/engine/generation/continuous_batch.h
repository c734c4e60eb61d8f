#pragma once

#include "simulator/engine/generation/request_load.h"
#include "simulator/engine/generation/token_step.h"
#include "simulator/time/seconds.h"

namespace headroom::engine {

/// Seconds in which a replica generates all of its requests.
///
/// Continuous batching in stretches of many tokens: as many requests run as there are slots and as the cache
/// has room for at the lengths that they have by then; when it fills up, the last to come is put back and
/// read again later; whoever ends makes room. At the end fewer and fewer run.
Seconds generation_seconds(const RequestLoad& load, const TokenSteps& steps);

}  // namespace headroom::engine
