#pragma once

#include <vector>

#include "planner/frameworks/colossalchat/settings.h"
#include "simulator/job/job.h"

namespace headroom::colossalchat {

/// The Job that runs these settings. Errors: what the programs themselves refuse (`find_problem`), then what the
/// job's own validation finds.
Result<Job> make_job(const Settings& settings);

// Its parts.
std::vector<Role> make_roles(const Settings& settings);
std::vector<PhaseSpec> make_start(const Settings& settings);
std::vector<PhaseSpec> make_step(const Settings& settings);

}  // namespace headroom::colossalchat
