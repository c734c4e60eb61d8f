#pragma once

#include <cstdint>

#include "models/base/result.h"
#include "planner/frameworks/read_job.h"
#include "planner/frameworks/shell/launch.h"

namespace headroom::deepspeed_chat {

/// GPUs that DeepSpeed's launcher starts a process on: those that the command line states, else the launcher's words,
/// else all eight of one node. Errors: as shell::runner_count's.
Result<std::int64_t> launched_gpus(const shell::Launch& launch, const JobOptions& options);

}  // namespace headroom::deepspeed_chat
