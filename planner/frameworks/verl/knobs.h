#pragma once

#include <span>
#include <vector>

#include "planner/frameworks/read_job.h"

namespace headroom::verl {

/// What search may vary in a verl run (the table in knobs.cc): none of it changes the algorithm, and what
/// changes numerics says so. Only knobs whose keys the run's release has are listed.
std::vector<Knob> knobs(const ReadJob& read);

/// The Job with `choices` made: typed settings are edited and the Job is made from them, without reading.
/// Knobs are set in the order of the table, whatever the order of `choices`.
Result<Job> with(const ReadJob& read, std::span<const Choice> choices);

/// verl's keys for `choices`: those of each knob, coupled ones included, and those that would otherwise
/// follow a changed key by reference pinned to their value. As overrides of the same files they give `with`'s
/// Job.
Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices);

}  // namespace headroom::verl
