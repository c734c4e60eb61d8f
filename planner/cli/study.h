#pragma once

#include "planner/cli/command.h"

namespace headroom::cli {

/// `headroom study FILE`: a matrix of jobs × strategies × cache emptying (planner/study), as a table, and as the
/// flags ask. Exit 0 when every cell is known, those that run out of memory among them; 2 when one could not be
/// simulated (it is told in its place, and the others are complete).
Command study_command();
int study(const Arguments& arguments, Streams& streams);

}  // namespace headroom::cli
