#pragma once

#include <vector>

#include "planner/frameworks/openrlhf/settings.h"
#include "simulator/job/job.h"

namespace headroom::openrlhf {

/// The Job that runs these settings. Errors: what OpenRLHF itself refuses (`find_problem`), then what the
/// job's own validation finds.
Result<Job> make_job(const Settings& settings);

// Its parts.
std::vector<Role> make_roles(const Settings& settings);
std::vector<Engine> make_engines(const Settings& settings);
std::vector<PhaseSpec> make_start(const Settings& settings);
std::vector<PhaseSpec> make_step(const Settings& settings);

/// GPUs of the group that a role is spread over.
std::int64_t group_size(const Settings& settings, const std::string& role);

}  // namespace headroom::openrlhf
