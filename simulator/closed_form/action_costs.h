#pragma once

#include <vector>

#include "models/base/result.h"
#include "simulator/closed_form/action_cost.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"

namespace headroom::closed_form {

/// Costs of all actions of `job`, in the order in which they run: `start`, then the phases of each step. The
/// program runs over a sum of live blocks; nothing is simulated beyond that. Equal layers are folded
/// (layer_fold.h) where they can be; other programs are run whole. `rank` is of the first pool.
Result<std::vector<ActionCost>> action_costs(const Job& job, const Hardware& hardware, std::int64_t rank = 0);

}  // namespace headroom::closed_form
