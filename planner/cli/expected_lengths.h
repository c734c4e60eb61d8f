#pragma once

#include "simulator/job/job.h"
#include "simulator/report/executor.h"

namespace headroom::cli {

/// What `executor` gives of jobs whose sequences are as `lengths` say: listed ones themselves, else all as long as is
/// expected. Without lengths `executor` itself, which knows the caps alone.
Executor at_lengths(const Executor& executor, const Lengths& lengths);

}  // namespace headroom::cli
