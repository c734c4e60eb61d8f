#pragma once

#include <span>
#include <string>

#include "planner/cli/command.h"

namespace headroom::cli {

/// `headroom --help`: what it is for and the commands.
std::string help(std::span<const Command> table);

/// `headroom COMMAND --help`: usage, then options in groups with units and defaults.
std::string help(const Command& command);

}  // namespace headroom::cli
