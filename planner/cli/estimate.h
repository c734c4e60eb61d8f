#pragma once

#include "planner/cli/command.h"
#include "simulator/report/executor.h"

namespace headroom::cli {

Command estimate_command();

/// `headroom estimate CONFIG…`: the closed form of each configuration, or the simulator's report where fragmentation
/// could decide (settled.h). Exit code 3 when one does not fit.
int estimate(const Arguments& arguments, Streams& streams);
/// The same with executors of the caller's.
int estimate(const Arguments& arguments, Streams& streams, const Executor& executor, const Executor& exact);

}  // namespace headroom::cli
