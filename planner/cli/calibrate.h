#pragma once

#include "planner/cli/command.h"

namespace headroom::cli {

Command calibrate_command();

/// Measures this machine's GPU (with `--nproc N` or under a launcher: N of them) into a hardware profile.
int calibrate(const Arguments& arguments, Streams& streams);

}  // namespace headroom::cli
