#pragma once

#include <span>
#include <string>
#include <vector>

#include "planner/cli/command.h"

namespace headroom::cli {

/// A command line understood: a command to run, or help to print.
struct Invocation {
  const Command* command = nullptr;  ///< null: help or version for the whole program
  bool help = false, version = false;
  Arguments arguments;
};

/// Reads `words` (without the program's name) against `table`. Unknown commands and flags are errors that
/// name the nearest known one.
Result<Invocation> parse(std::span<const Command> table, const std::vector<std::string>& words);

}  // namespace headroom::cli
