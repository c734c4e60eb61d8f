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
  std::optional<Tried> fits;  ///< the value asked for; none: no value fits
  /// The next value there is: it does not fit, or (then not valid) the framework refuses it and all beyond it. None:
  /// the last there is fits. Where none fits: the one that misses by least.
  std::optional<Tried> beyond;
};

/// What comes of a value.
using TryValue = std::function<Outcome(const std::string& value)>;

/// The last of `values`, in their order, with which the run fits by `exact` (`smallest`: the first). `quick` never
/// says that more is taken than `exact` finds, so values with which the run does not fit by it are passed over.
/// Whole numbers, and fractions in hundredths, are then refined between that value and the next one, until they
/// lie one step apart or the framework takes nothing between them: by what is to spare at both, so that a few exact
/// runs do. Errors: nothing can run.
Result<Solution> solve(const std::string& knob, std::vector<std::string> values, bool smallest,
                       const TryValue& quick, const TryValue& exact);

/// `knob: no value of it can run`, with what the framework says.
Error nothing_runs(const std::string& knob, const std::string& refusal);

}  // namespace headroom::search
