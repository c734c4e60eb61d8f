#pragma once

#include <optional>
#include <string>

#include "planner/search/evaluator.h"

namespace headroom::search {

struct Solution {
  std::string value;
  Outcome outcome;
  std::optional<std::string>
      next;  ///< the next value tried beyond, which does not fit; none: the last there is
};

/// The last value of `knob`, in its order, with which the run fits (`smallest`: the first). Whole numbers are
/// then refined between the last candidate that fits and the next one, as far as the framework takes values
/// between them. Errors: none fits (the message says by how much the best misses).
Result<Solution> solve(const Setup& setup, const Knob& knob, bool smallest, const Executor& executor);

}  // namespace headroom::search
