#pragma once

#include <optional>
#include <vector>

#include "planner/search/evaluator.h"

namespace headroom::search {

/// The changes of fewest knobs with which the run fits by `exact`: none, one, or two; of as many the fastest by
/// `quick`. None: no such change is known, three or more may be needed. Runs every single change quickly, and pairs of
/// those that free most where no single one fits; by `exact` those that `quick` lets fit, up to a hundred.
std::optional<std::vector<Choice>> least_changes(const Setup& setup, const Space& space, const Executor& quick,
                                                 const Executor& exact);

}  // namespace headroom::search
