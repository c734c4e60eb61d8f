#pragma once

#include "planner/cli/command.h"

namespace headroom::cli {

/// `headroom simulate CONFIG…`: runs the step over the simulated allocators; the table of phases and the
/// largest holders at the overall peak; `--events FILE` writes every allocation and free.
Command simulate_command();
int simulate(const Arguments& arguments, Streams& streams);

}  // namespace headroom::cli
