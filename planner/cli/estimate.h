#pragma once

#include "planner/cli/command.h"
#include "simulator/report/executor.h"

namespace headroom::cli {

Command estimate_command();

/// `headroom estimate CONFIG…`: the closed form of each configuration. Exit code 3 when one does not fit.
int estimate(const Arguments& arguments, Streams& streams);
/// The same with an executor of the caller's.
int estimate(const Arguments& arguments, Streams& streams, const Executor& executor);

}  // namespace headroom::cli
