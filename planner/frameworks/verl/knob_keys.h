#pragma once

#include <vector>

#include "planner/frameworks/read_job.h"
#include "planner/frameworks/verl/settings.h"

namespace headroom::verl {

/// Keys with values, as a knob writes them.
using Keys = std::vector<Setting>;

// What several knobs write.

/// Sizes of every pass: token budgets when `dynamic`, else sequences a GPU, in place of old global sizes.
void add_sizes(Keys& keys, const Settings& s, bool dynamic);
/// Sizes of the log-prob passes: budgets when `dynamic`.
void add_log_prob(Keys& keys, const Settings& s, bool dynamic);
/// Old global sizes are replaced by sizes a GPU: verl takes one of the two only.
void drop_deprecated(Keys& keys, const Settings& s);

}  // namespace headroom::verl
