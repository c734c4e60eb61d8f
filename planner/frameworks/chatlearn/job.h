#pragma once

#include <vector>

#include "planner/frameworks/chatlearn/settings.h"
#include "simulator/job/job.h"

namespace headroom::chatlearn {

/// The Job that runs these settings. Errors: what ChatLearn itself refuses (`find_problem`), then what the
/// job's own validation finds.
Result<Job> make_job(const Settings& settings);

std::vector<PhaseSpec> make_start(const Settings& settings);
std::vector<PhaseSpec> make_step(const Settings& settings);

}  // namespace headroom::chatlearn
