#pragma once

#include <string>
#include <vector>

#include "models/base/result.h"

namespace headroom::cli {

/// A file that the gate looks at.
struct GatePath {
  std::string path;
  bool found = false;  ///< in a directory: it may be no configuration at all, which is then no fault
};

/// The files that the words of a command line mean: files as they are (`-`: standard input), directories with
/// every configuration and launch script below them by its name (`*.yaml`, `*.json`, `*.args`, `*.sh`, `*.slurm` …;
/// hidden folders left out, links not followed), and patterns (models/base/pattern.h). Sorted within a word, each once. What is not there is returned, for
/// its reader to tell. Errors: a folder or pattern without a file, a folder that can't be read.
Result<std::vector<GatePath>> gate_paths(const std::vector<std::string>& words);

}  // namespace headroom::cli
