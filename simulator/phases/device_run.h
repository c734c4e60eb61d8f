#pragma once

#include "models/base/result.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"
#include "simulator/phases/machine.h"
#include "simulator/report/report.h"

namespace headroom {

/// How faithfully a trainer's memory is followed.
enum class Fidelity {
  live_bytes,        ///< a sum of live blocks: allocated exact, reserved taken as allocated
  every_allocation,  ///< the simulated caching allocator: reserved and fragmentation too
};

/// Runs a job's step, action by action, on one GPU of each kind (a pool; in it, a stage of the longest
/// pipeline) with all processes that live there: trainers
/// over a Memory, rollout and reward engines by their accounts, contexts and communicators beside them.
/// Processes act one after the other; while one acts, the others hold what they hold, so a phase's peak is
/// the highest sum at one moment.
///
/// The host side is a node's: what each of its GPUs' processes hold, loading at init, and the processes
/// themselves. Seconds come from the operations that the program runs. Errors: what no program covers.
Result<Report> run_on_device(const Job& job, const Hardware& hardware, Fidelity fidelity);

/// The same for the first pool with its trainer on a real machine, every allocation real, and with the
/// engines beside it as the machine's neighbours. Errors also: a second training process.
Result<Report> run_on_device(const Job& job, const Hardware& hardware, Machine& machine);

}  // namespace headroom
