#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "planner/search/solve.h"

namespace headroom::search {

/// A number of a run: whole, or a share in hundredths.
struct Number {
  std::string current;    ///< the run's own, which its framework takes
  bool smallest = false;  ///< the smallest that fits is asked for, instead of the largest
};

/// What can be asked of a value, as text.
struct NumberTries {
  std::function<std::string(const std::string& value)> refusal;  ///< why there is no such run; empty: there is. Cheap
  TryValue quick;  ///< never more memory than `exact`
  TryValue exact;
};

/// The largest value (or the smallest) with which the run fits, and the next one there is beyond it. Looks from the
/// run's own value by doubling, then between what fits and what does not by how much both miss; values that the
/// framework refuses do not exist, and where it refuses all that is beyond, that is the edge. Values up to 64 times
/// the run's own, either way, are looked at. Errors: nothing can run, a value that is no number.
Result<Solution> solve_number(const std::string& knob, const Number& number, const NumberTries& tries);

}  // namespace headroom::search
