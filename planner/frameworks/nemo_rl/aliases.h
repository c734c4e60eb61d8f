#pragma once

#include <vector>

#include "planner/configuration/layers.h"
#include "planner/frameworks/read_job.h"

namespace headroom::nemo_rl {

/// Memory guides name switches that NeMo RL does not have (`gradient_checkpointing`, `offload_optimizer` …).
/// Each one that is given is laid over the configuration as the key that does it, for the backend that runs,
/// and told so; one that stands for nothing is told too. Errors: as Layers::apply.
Result<std::vector<Notice>> replace_aliases(Layers& layers);

}  // namespace headroom::nemo_rl
