#pragma once

#include "planner/cli/command.h"
#include "simulator/report/executor.h"

namespace headroom::cli {

Command solve_command();

/// `headroom solve KNOB CONFIG`: the largest (`--smallest`: smallest) value of one knob that fits. Exit code
/// 3 when none does.
int solve(const Arguments& arguments, Streams& streams);
int solve(const Arguments& arguments, Streams& streams, const Executor& quick, const Executor& executor);

}  // namespace headroom::cli
