#pragma once

#include "planner/frameworks/registry.h"

namespace headroom::easyr1 {

/// EasyR1, a descendant of verl: its YAML (`data`, `algorithm`, `worker`, `trainer`) and overrides. Its keys are
/// verl's under other names and are read as those of the release that it grew from, with the engine inside the
/// trainer's process; what is asked and answered is in EasyR1's own keys.
bool detect(const JobInput& input);
Result<ReadJob> read(const JobInput& input, const JobOptions& options);

/// verl's knobs whose keys EasyR1 has.
std::vector<Knob> knobs(const ReadJob& read);
Result<Job> with(const ReadJob& read, std::span<const Choice> choices);
Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices);

}  // namespace headroom::easyr1
