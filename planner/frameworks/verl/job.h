#pragma once

#include "planner/frameworks/verl/settings.h"
#include "simulator/job/job.h"

namespace headroom::verl {

/// What a run with these settings is: roles, engines, processes, and the step in the order of its release.
/// Everything that depends on verl's version is decided here. Microseconds. Errors: `find_problem`, or what
/// no Job may be (`validate_job`).
Result<Job> make_job(const Settings& settings);

/// Actor, reference, critic and FSDP reward model, those that exist.
std::vector<Role> make_roles(const Settings& settings);

/// Rollout and reward engine, those that exist.
std::vector<Engine> make_engines(const Settings& settings);

/// The phases before the first step, and those of every step (spec of each release in step.cc).
std::vector<PhaseSpec> make_start(const Settings& settings);
std::vector<PhaseSpec> make_step(const Settings& settings);

}  // namespace headroom::verl
