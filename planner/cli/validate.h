#pragma once

#include "planner/cli/command.h"

namespace headroom::cli {

Command validate_command();

/// Runs the predicted program as real work on this machine's GPU and shows predicted against measured. Exit
/// code 4 when a phase is outside the margin, 3 when the card ran out of memory, 2 without a usable GPU.
int validate(const Arguments& arguments, Streams& streams);

}  // namespace headroom::cli
