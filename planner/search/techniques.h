#pragma once

#include <string>
#include <vector>

#include "planner/search/changes.h"

namespace headroom::search {

/// What one way to save memory does to this run.
struct Technique {
  std::string name;  ///< the knob's, or the number's
  std::string what;  ///< in words
  Change change;
  bool changes_numerics = false;  ///< what is trained changes
  double seconds = 0;             ///< lost a step; negative: gained. Not known where a run breaks
  bool seconds_known = false;
  std::vector<std::pair<std::string, Bytes>> saved;  ///< by phase, where at least 1 % of the card; negative: more is taken
};

/// Of `changes`, by `quick` as the run itself (`now`): of each knob the value that leaves most in the phase that limits
/// the run, those that save nothing anywhere left out; what saves most there first.
std::vector<Technique> techniques(const Space& space, const std::vector<Change>& changes, const Outcome& now);

/// One that is no knob: `change` with its outcome by the same executor as `now`.
Technique technique_of(std::string name, std::string what, Change change, const Outcome& now);

}  // namespace headroom::search
