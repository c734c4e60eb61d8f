#pragma once

#include <span>
#include <string>
#include <vector>

#include "planner/cli/prediction.h"

namespace headroom::cli {

/// The name of the knob that `text` means: its own, or the framework's key that the knob sets, whole or its
/// last parts (`rollout.gpu_memory_utilization`) where one knob alone has it. `text` itself when none does.
std::string knob_name(const Run& run, std::span<const Knob> knobs, const std::string& text);

/// The same for `KNOB` and `KNOB=VALUE,VALUE…` of --vary and --fix.
std::vector<std::string> knob_requests(const Run& run, std::span<const Knob> knobs,
                                       const std::vector<std::string>& requests);

/// Why nothing of the run can be varied: its framework has no knobs; names those that have.
std::string no_knobs(const Run& run);

}  // namespace headroom::cli
