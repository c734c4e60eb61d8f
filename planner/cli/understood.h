#pragma once

#include <string>
#include <utility>
#include <vector>

#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"

namespace headroom::cli {

/// What a configuration was understood to say, as pairs of a word and a text: model, GPUs, framework and how its
/// release is known, lengths and batch, sharding, offload, LoRA, engine. A wrong reading is seen here first.
std::vector<std::pair<std::string, std::string>> understood(const Job& job, const Hardware& hardware);

}  // namespace headroom::cli
