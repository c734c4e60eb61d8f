#pragma once

#include "models/base/result.h"
#include "planner/frameworks/read_job.h"

namespace headroom::deepspeed_chat {

/// Whether a script or command starts the third step: a `main.py` with --actor_model_name_or_path.
bool is_command(const JobInput& input);

/// The command's flags as the map of keys that read.h describes, each value with its flag's line; sizes that the
/// flags leave out are the script's own defaults. Errors: a value that nobody knows before the run, models that
/// can't be found, flags that no case can state (unequal batches, stages or checkpointing of actor and critic).
Result<JobInput> case_of_command(const JobInput& input, const JobOptions& options);

}  // namespace headroom::deepspeed_chat
