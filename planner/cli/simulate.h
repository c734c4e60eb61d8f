#pragma once

#include "planner/cli/command.h"

namespace headroom::cli {

/// `headroom simulate CONFIG…`: runs the step over the simulated allocators; the table of phases and the
/// largest holders of the trainer that peaks highest; `--events FILE` and `--pickle FILE` write its
/// allocations and frees, `--device` and `--process` choose another.
Command simulate_command();
int simulate(const Arguments& arguments, Streams& streams);

}  // namespace headroom::cli
