#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/base/result.h"
#include "simulator/device/outside.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"
#include "simulator/memory/recording_memory.h"
#include "simulator/phases/machine.h"
#include "simulator/replay/snapshot.h"
#include "simulator/report/executor.h"
#include "simulator/report/report.h"
#include "simulator/tape/core/tape.h"

namespace headroom {

/// The complete stream of a training process, with the module paths that its labels index. Operations are
/// `tape::operation_text`.
struct EventStream {
  std::vector<MemoryEvent> events;
  std::vector<std::string> modules;
};

/// What a simulation is run on and what is asked of it beside the report.
struct SimulateOptions {
  Bytes total_memory = 0;  ///< of the device, as the driver reports it; 0: no limit
  tape::DeviceTraits traits;
  std::optional<OutsideGrowth> outside;  ///< of the process, beside its allocator; none: not counted
  bool holders = false;                  ///< the largest holders at the overall peak (a second run)
  std::int64_t holder_count = 10;
  EventStream* events = nullptr;         ///< filled when given
  replay::Snapshot* snapshot = nullptr;  ///< filled when given: the run as PyTorch would have recorded it
  Machine* machine = nullptr;            ///< real memory and work, in place of the model of a device
  bool leave_out_repetitions = true;  ///< equal layers of a decoded token; the report is the same either way
};

/// Memory and traits of a job on a kind of GPU.
SimulateOptions options_for(const Job& job, const Hardware& hardware);

/// Runs a job's step, action by action, every allocation and free over the simulated caching allocator, for
/// as many steps as the job says, and reports each phase. Out of memory is a result (in the phase's row), not
/// an error. Errors: the job violates `validate_job`, or holds what no program covers. O(events).
Result<Report> simulate(const Job& job, const SimulateOptions& options);

/// `simulate` as an executor of searches and commands.
Executor simulating_executor();

}  // namespace headroom
