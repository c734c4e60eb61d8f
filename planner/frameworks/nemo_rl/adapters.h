#pragma once

#include <string>
#include <vector>

#include "models/architecture/architecture.h"
#include "planner/frameworks/nemo_rl/settings.h"

namespace headroom::nemo_rl {

/// The modules that Automodel's `ModuleMatcher` gives adapters, by the last parts of their names: all linears with
/// `match_all_linear`; those that a pattern of `target_modules` matches, whole names or with `*` for any run of
/// characters; else all but those that `exclude_modules` matches; `*_proj` where nothing is said. A pattern that takes
/// in only some layers' modules counts for all of a name, and one that leaves some out for none.
std::vector<std::string> adapter_targets(const Lora& lora, const Architecture& model);

}  // namespace headroom::nemo_rl
