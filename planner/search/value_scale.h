#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "planner/search/outcome.h"

namespace headroom::search {

/// Numbers between which there are others: in steps of one, or of a hundredth.
struct Scale {
  bool whole = true;

  std::string text(std::int64_t steps) const;
  /// The steps of `text`; none: it is no such number.
  std::optional<std::int64_t> steps(const std::string& text) const;
};

/// The scale of which both texts are.
std::optional<Scale> scale_of(const std::string& a, const std::string& b);

/// Where between `good` and `bad` memory would be used up, were it used evenly; the middle with `halve`, and where
/// nothing is known of `bad`. Strictly between both.
std::int64_t between(std::int64_t good, const Outcome& fits, std::int64_t bad, const Outcome& fails, bool halve);

}  // namespace headroom::search
