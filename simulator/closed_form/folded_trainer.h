#pragma once

#include "models/base/result.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"
#include "simulator/report/report.h"

namespace headroom::closed_form {

/// The closed form of one job: the report of `run_on_device` over a sum of live blocks (allocated bytes as
/// the simulator's but for the remainders that its blocks keep; reserved bytes as an allocator without
/// fragmentation would, see CountingMemory), with equal layers folded where the job lets them (layer_fold.h).
/// What does not fold is run whole. Errors as `run_on_device`.
Result<Report> estimate(const Job& job, const Hardware& hardware);

}  // namespace headroom::closed_form
