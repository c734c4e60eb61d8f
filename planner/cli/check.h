#pragma once

#include "planner/cli/command.h"
#include "simulator/report/executor.h"

namespace headroom::cli {

Command check_command();

/// `headroom check CONFIG…`: the gate: one line a configuration, exit code 3 when one does not fit. A
/// configuration that cannot be read does not keep the others from being checked.
int check(const Arguments& arguments, Streams& streams);
/// The same with an executor of the caller's.
int check(const Arguments& arguments, Streams& streams, const Executor& executor);

}  // namespace headroom::cli
