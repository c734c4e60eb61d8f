#pragma once

#include "planner/frameworks/read_job.h"
#include "planner/frameworks/verl/settings.h"

namespace headroom::verl {

/// Whether the files hold verl's root sections, as YAML or as a list of overrides.
bool detect(const JobInput& input);

/// Reads verl configurations: a full tree, a short one laid over the defaults of its release, several laid
/// over each other, or lists of Hydra overrides; `options.overrides` come last.
Result<ReadJob> read(const JobInput& input, const JobOptions& options);

/// The settings of a Job that `read` made.
const Settings& settings_of(const ReadJob& read);

}  // namespace headroom::verl
