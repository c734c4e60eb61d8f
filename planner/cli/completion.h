#pragma once

#include "planner/cli/command.h"

namespace headroom::cli {

Command completion_command();

/// `headroom completion SHELL`: what bash, zsh or fish completes, out of the table of commands; or `man`: the manual
/// page.
int completion(const Arguments& arguments, Streams& streams);

}  // namespace headroom::cli
