#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/frameworks/read_job.h"

namespace headroom {

/// The name that stands for a command behind `--` where a file is expected.
inline constexpr std::string_view kCommandLine = "--";

/// Bounds of a configuration: the largest real ones have some 3,000 values.
inline constexpr ReadLimits kConfigurationLimits{.bytes = 8 << 20, .nodes = 50'000, .depth = 100};

/// How the error of a script that starts no program begins.
inline constexpr std::string_view kStartsNothing = "it starts no ";

/// What one CONFIG may be read as: a configuration is one thing; a script is one a run that it starts, those
/// first that no unknown test decides; a list of overrides is kept as text.
struct InputChoices {
  std::vector<JobInput::File> files;
  std::vector<Notice> notices;  ///< what the script leaves open
  bool script = false;
};

/// `text` of the file `path`. Errors: broken YAML or shell syntax, a script that starts no Python program.
Result<InputChoices> read_input(std::string text, const std::string& path, const JobOptions& options);

/// The command in `options.words`.
Result<InputChoices> read_command_line(const JobOptions& options);

}  // namespace headroom
