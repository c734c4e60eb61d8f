#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search/space.h"
#include "simulator/job/job.h"

namespace headroom::search {

/// What one dimension of a space does to a group of phases.
struct DimensionEffect {
  bool seconds = false, memory = false;  ///< touched at all
  End faster = End::none, frugal = End::none;
  double slack = 0, slack_unless = 0;  ///< the latter with the flag `time_unless`; 0: no end is known then
  bool spares_at_end = false;
  Bytes uneven = 0;
  /// A flag among the dimensions with which no end of time, or of memory, is known.
  std::optional<std::size_t> time_unless, memory_unless;
  bool any() const { return seconds || memory; }
  bool operator==(const DimensionEffect&) const = default;
};

/// Phases that the same dimensions touch in the same way. A step's time is the sum of its groups' times, and it
/// fits when each group does.
struct PhaseGroup {
  std::vector<std::string> phases;       ///< by the names that reports show
  std::vector<DimensionEffect> effects;  ///< by dimension
};

/// The groups of `job`'s phases under the dimensions of `space`, by what the knobs declare (`Knob::effects`).
std::vector<PhaseGroup> phase_groups(const Job& job, const Space& space);

}  // namespace headroom::search
