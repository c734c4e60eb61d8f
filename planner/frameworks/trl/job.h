#pragma once

#include <string>
#include <vector>

#include "planner/frameworks/trl/settings.h"
#include "simulator/job/job.h"

namespace headroom::trl {

/// The job of fields that are already derived, unchecked.
Job assemble(const Settings& settings);

// Parts of a run's job.
std::vector<Role> make_roles(const Settings& settings);
std::vector<Engine> make_engines(const Settings& settings);
std::vector<PhaseSpec> make_start(const Settings& settings);

/// One training step a micro-batch, as a recording has its rows; and the whole cycle between two generations
/// or optimizer steps as one step.
std::vector<PhaseSpec> make_training_steps(const Settings& settings);
std::vector<PhaseSpec> make_cycle(const Settings& settings);
/// Training steps of a cycle.
std::int64_t cycle_length(const Settings& settings);
/// PPO's update; and SFT's, DPO's or a reward model's optimizer step.
std::vector<PhaseSpec> make_update(const Settings& settings);
std::vector<PhaseSpec> make_supervised_step(const Settings& settings);

// What the steps above share: a phase within a later row, shown or not.
PhaseSpec part(std::string within, PhaseKind kind, std::vector<Action> actions, const char* name);
PhaseSpec unshown(std::string within, std::string call);
/// What clips, steps and drops gradients, and the row that covers it all.
std::vector<PhaseSpec> optimizer_step();

}  // namespace headroom::trl
