#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "models/base/result.h"

namespace headroom::launch {

/// A copy of this program that must not outlive this process.
struct Child {
  std::vector<std::string> arguments;    ///< name first
  std::vector<std::string> environment;  ///< `NAME=value`
  int input = -1, output = -1;  ///< files that become its standard input and output; -1: this process's
};

/// This process's environment without the variables in `without`.
std::vector<std::string> environment_without(const std::vector<std::string>& without);

/// Starts `child`. The kernel kills it when the thread that started it ends, by whatever: a GPU's memory is
/// not left to processes that nobody waits for. Signals that this thread blocks are not blocked in it.
/// Errors: the system's.
Result<pid_t> start(Child child);

}  // namespace headroom::launch
