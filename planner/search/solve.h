#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/search/evaluator.h"

namespace headroom::search {

/// A value and what comes of it.
struct Tried {
  std::string value;
  Outcome outcome;
};

struct Solution {
  Tried fits;
  std::optional<Tried> beyond;  ///< the next value there is: it does not fit; none: the last there is fits
};

/// What comes of a value.
using TryValue = std::function<Outcome(const std::string& value)>;

/// The last of `values`, in their order, with which the run fits by `exact` (`smallest`: the first). `quick` never
/// says that more is taken than `exact` finds, so values with which the run does not fit by it are passed over.
/// Whole numbers, and fractions in hundredths, are then refined between that value and the next one, until they
/// lie one step apart or the framework takes nothing between them: by what is to spare at both, so that a few exact
/// runs do. Errors: none fits (the message says by how much the best misses, where), nothing can run.
Result<Solution> solve(const std::string& knob, std::vector<std::string> values, bool smallest,
                       const TryValue& quick, const TryValue& exact);

}  // namespace headroom::search
