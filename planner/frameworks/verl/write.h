#pragma once

#include <span>
#include <string>

#include "planner/frameworks/read_job.h"

namespace headroom::verl {

/// As write_back.h. What a launch started from stays underneath: its words stand in a file over
/// `defaults: [NAME, _self_]`, which `--config-path` and `--config-name` launch.
Result<std::string> write_yaml_file(const ReadJob& read, std::span<const Setting> settings,
                                    const WriteHeader& header);

/// As write_launch.h, with `+` in front of keys that verl's schema of the run's release lacks.
Result<std::string> write_launch_script(const ReadJob& read, std::span<const Setting> settings,
                                        const WriteHeader& header);
Result<std::string> write_override_list(const ReadJob& read, std::span<const Setting> settings,
                                        const WriteHeader& header);

}  // namespace headroom::verl
