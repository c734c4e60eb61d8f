#pragma once

#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "planner/cli/run.h"

namespace headroom::cli {

/// What a command line of `table` gives.
struct Outcome {
  int code;
  std::string out, err;
};

inline Outcome run_words(std::span<const Command> table, const std::vector<std::string>& words) {
  std::istringstream in;
  std::ostringstream out, err;
  Streams streams{in, out, err};
  const int code = run(table, words, streams);
  return {code, out.str(), err.str()};
}

/// What a command line of `headroom` gives.
inline Outcome run_words(const std::vector<std::string>& words) {
  return run_words(commands(), words);
}

}  // namespace headroom::cli
