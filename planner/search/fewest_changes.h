#pragma once

#include <optional>

#include "planner/search/search.h"
#include "planner/search/space.h"

namespace headroom::search {

struct FewestOptions {
  double tolerance = 0.02;  ///< of the winner's step time that may be given up
  int most_exact_runs = 12;
};

/// Takes changes back from `winner` as long as the step stays within the tolerance of the winner's and an
/// exact run still fits: first all that change neither time nor memory, then one after the other, the one that
/// costs least time first. None when every change is needed. Few quick runs: knobs × changes.
std::optional<Found> fewest_changes(const Space& space, const Evaluate& quick, const Evaluate& exact,
                                    const Found& winner, const FewestOptions& options = {});

}  // namespace headroom::search
