#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/cli/command.h"

namespace headroom::cli {

inline constexpr const char* kVersion = "0.1.0";  ///< as CMakeLists.txt has it; a test holds them together

/// Parses `words` (without the program's name), runs one command of `table` and returns the exit code. Output
/// that could not be written to `streams.out` is an error of its own.
int run(std::span<const Command> table, const std::vector<std::string>& words, Streams& streams,
        std::string_view build = {});

/// The whole program on the standard streams. `build` says what it was built from, for --version.
int run(int argc, const char* const* argv, std::string_view build);

}  // namespace headroom::cli
