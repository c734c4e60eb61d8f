#pragma once

#include "planner/cli/command.h"
#include "simulator/report/executor.h"

namespace headroom::cli {

Command check_command();

/// `headroom check PATHS…`: the gate for CI. A line a configuration and the totals; reports for CI systems; the
/// exit code is the gravest.
int check(const Arguments& arguments, Streams& streams);
/// The same with executors of the caller's: the one that decides, and a quick one for the many configurations of
/// a repository of which most are far from their limit.
int check(const Arguments& arguments, Streams& streams, const Executor& exact, const Executor& quick);

}  // namespace headroom::cli
