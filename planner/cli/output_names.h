#pragma once

#include <span>

#include "models/base/result.h"
#include "planner/cli/command.h"

namespace headroom::cli {

/// Whether the files that a command line asks for can all be kept: each output has a name, no two share one
/// (nor standard output), and none is a file that another argument names, which would be lost. What is no
/// regular file (/dev/null, a pipe) may be shared. The error names the flag.
Status check_output_names(std::span<const Option> options, const Arguments& arguments);

}  // namespace headroom::cli
