#pragma once

#include <vector>

#include "planner/frameworks/nemo_rl/settings.h"
#include "planner/frameworks/read_job.h"

namespace headroom::nemo_rl {

/// A run of NeMo RL's own worker that was recorded phase by phase (`validator/pytorch/nemo_rl_worker.py`):
/// `case.config` is the whole configuration of the run, `case.model` the values of its model's config.json;
/// `device`, `torch`, `transformers` and `case.release` say on what it ran.
bool is_recording(const Document& document);
bool has_recording(const JobInput& input);

/// The input with each recording's configuration in its place, the model in `headroom.model_config`.
JobInput without_recordings(const JobInput& input);

/// The rows that the recorded worker formed of `case.lengths`, where its sequences were packed or batched by length; a
/// batch that several ranks share is not listed.
std::vector<ListedBatches> recorded_batches(const JobInput& input, const Settings& settings);

}  // namespace headroom::nemo_rl
