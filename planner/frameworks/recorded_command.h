#pragma once

#include <span>
#include <string>
#include <string_view>

#include "planner/frameworks/read_job.h"

namespace headroom {

/// A run of a framework's own program that was recorded phase by phase (`validator/pytorch`): `case.program` says which,
/// `case.words` are the words of its command, where MODEL and CRITIC stand for models whose config.json has the values of
/// `case.model` and `case.critic`; `ranks`, `device` and the releases beside them say on what it ran. `case.process`, of
/// a job of several, names the process that was recorded (`headroom compare` reads it). `case.full_rows`: every row was
/// as long as rows can be (`headroom.full_rows`).
struct ProgramName {
  std::string_view recorded;  ///< as `case.program` has it
  std::string_view started;   ///< as a launch has it: a module or a file
};

bool is_recorded_command(const Document& document, std::span<const ProgramName> programs);
bool has_recorded_command(const JobInput& input, std::span<const ProgramName> programs);

/// The same run as a command: its launch in the recording's place; the models, the card and the releases that it ran on
/// among the options, where those do not state others.
struct RecordedCommand {
  JobInput input;
  JobOptions options;
};
RecordedCommand recorded_command(const JobInput& input, const JobOptions& options, std::span<const ProgramName> programs);

}  // namespace headroom
