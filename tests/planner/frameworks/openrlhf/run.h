#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "planner/frameworks/registry.h"
#include "planner/frameworks/shell/launch.h"

namespace headroom::test {

/// The first run that a script starts, as a framework's reader is given it.
inline Result<JobInput> launch_of(const std::string& text, const std::string& path) {
  HEADROOM_ASSIGN(shell::Reading reading, shell::read_script(text, path, {}));
  if (reading.launches.empty()) return fail("starts nothing");
  JobInput input;
  JobInput::File& file = input.files.emplace_back();
  file.path = path;
  file.text = text;
  file.launch = std::make_shared<const shell::Launch>(std::move(reading.launches.front()));
  return input;
}

inline Result<ReadJob> read_launch(const std::string& text, std::vector<std::string> overrides = {},
                                   const std::string& path = "run.sh") {
  HEADROOM_ASSIGN(const JobInput input, launch_of(text, path));
  JobOptions options;
  options.overrides = std::move(overrides);
  options.gpu = "h100";
  return read_job(input, options);
}

}  // namespace headroom::test
