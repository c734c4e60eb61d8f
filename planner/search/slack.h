#pragma once

#include <vector>

#include "planner/search/outcome.h"
#include "planner/search/space.h"

namespace headroom::search {

/// What an exact run takes beyond a quick prediction (fragmentation, blocks that wait for another stream),
/// learned from configurations that both have run and expected of those alike: a phase is expected to take as
/// much more as it did in the most similar of them, the one in which the fewest knobs differ (of several, the
/// one in which it took most).
class Slack {
 public:
  /// Both have run `point`. An exact run that breaks teaches only the phases that it reached.
  void learn(const Point& point, const Outcome& quick, const Outcome& exact);

  /// The quick outcome of `point` as the exact one is expected. Never better than `quick`.
  /// O(learned × (knobs + phases)).
  Outcome expected(const Point& point, Outcome quick) const;

 private:
  struct Sample {
    Point point;
    std::vector<PhaseOutcome> more;  ///< bytes by phase
  };

  std::vector<Sample> samples_;
};

}  // namespace headroom::search
