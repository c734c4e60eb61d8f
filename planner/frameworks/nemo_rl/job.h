#pragma once

#include <vector>

#include "planner/frameworks/nemo_rl/settings.h"
#include "simulator/job/job.h"

namespace headroom::nemo_rl {

/// The Job that runs these settings. Errors: what NeMo RL itself refuses (`find_problem`), then what the
/// job's own validation finds.
Result<Job> make_job(const Settings& settings);

// Its parts.
std::vector<Role> make_roles(const Settings& settings);
std::vector<Engine> make_engines(const Settings& settings);
std::vector<PhaseSpec> make_start(const Settings& settings);
std::vector<PhaseSpec> make_step(const Settings& settings);

/// Tokens of the longest prompt and of the longest response beside it.
struct Caps {
  std::int64_t prompt = 0, response = 0;
};
Caps caps(const Settings& settings);

}  // namespace headroom::nemo_rl
