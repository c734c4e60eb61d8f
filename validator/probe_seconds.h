#pragma once

#include "models/base/result.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"
#include "simulator/report/report.h"

namespace headroom::gpu {

/// The card with the probe's host in place of one that runs Python: an operation costs one launch, nothing
/// else. `launch`: seconds of one, as measured on this machine.
Hardware with_probes_host(Hardware card, double launch);

/// The report of `job` as the probe works on it: each piece of work counts as often as it is run, not as often as it
/// stands for others, and the host is the probe's. Its seconds mean what the probe measures. Errors as `run_on_device`.
Result<Report> probes_own_seconds(const Job& job, const Hardware& card, double launch);

}  // namespace headroom::gpu
