#pragma once

#include <span>
#include <string>
#include <vector>

#include "planner/frameworks/read_job.h"

namespace headroom::jobfile {

/// Headroom's own job file as one of the frameworks (registry.h). Overrides name list items by index or by
/// `name`: `roles.actor.train.tokens=8192`.
bool detect(const JobInput& input);
Result<ReadJob> read(const JobInput& input, const JobOptions& options);
std::vector<Knob> knobs(const ReadJob& read);
Result<Job> with(const ReadJob& read, std::span<const Choice> choices);
Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices);

}  // namespace headroom::jobfile
