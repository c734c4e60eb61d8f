#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planner/frameworks/shell/syntax.h"

namespace headroom::shell {

inline constexpr int kDeepest = 100;

/// A program and how much of the text it took.
struct Parsed {
  Program program;
  std::size_t used = 0;
};

/// Parses up to an unquoted `end` (`)`; empty: the end of the text), which is left. `base` as in Scanner.
Result<Parsed> parse_until(std::string_view text, const std::string& file, int line, std::string_view end,
                           int depth, std::optional<std::size_t> base);

}  // namespace headroom::shell
