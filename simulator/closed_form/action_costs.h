#pragma once

#include <vector>

#include "models/base/result.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"
#include "simulator/memory/component.h"

namespace headroom::closed_form {

/// What one action of a role does to its process.
struct ActionCost {
  Bytes rise = 0;       ///< highest live bytes during it, beyond those before it
  Bytes gathered = 0;   ///< of those before it: whole parameters that an earlier pass left
  Breakdown held;       ///< live after it, by component
  Bytes host_rise = 0;  ///< the same of host memory
  Breakdown host_held;
  double seconds = 0;
  bool empties_cache = false;
};

/// Costs of all actions of `job`, in the order in which they run: `start`, then the phases of each step. The
/// program runs over a sum of live blocks; nothing is simulated beyond that.
///
/// Where the decoder ends in a group of many equal layers, two runs with three and four of them give all that
/// more layers would: every moment of the first and of the last two layers, and what lies outside layers, is
/// linear in their number, and so is what lies between (it grows or falls from layer to layer); the highest
/// of these lines is the peak. Programs whose moments do not pair up are run whole.
Result<std::vector<ActionCost>> action_costs(const Job& job, const Hardware& hardware);

/// `model` with only `count` of its last group's layers; null when that group has no more, or is not the
/// last.
std::shared_ptr<const Architecture> with_last_group(const Architecture& model, std::int64_t count);

}  // namespace headroom::closed_form
