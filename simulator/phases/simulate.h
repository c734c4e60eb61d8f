#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/base/result.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"
#include "simulator/phases/run_recorder.h"
#include "simulator/replay/snapshot.h"
#include "simulator/report/report.h"

namespace headroom {

/// What is asked of a simulation beside the report, all of one training process: that which reserves most on
/// the GPU whose memory peaks highest, or the one chosen. What is asked takes a second run of that GPU.
struct SimulateOptions {
  bool holders = false;  ///< the largest holders at its highest allocated value, in its device's report
  std::int64_t holder_count = 10;
  EventStream* events = nullptr;         ///< filled when given
  replay::Snapshot* snapshot = nullptr;  ///< filled when given: the run as PyTorch would have recorded it
  std::vector<ProcessFragmentation>* fragmentation =
      nullptr;  ///< filled when given: of every training process on every kind of GPU, in the same run
  std::optional<std::int64_t> device;    ///< index of a GPU in its pool, or of one alike
  std::string process;                   ///< its name; empty: any

  bool leave_out_repetitions = true;  ///< equal layers of a decoded token; the report is the same either way
};

/// Runs a job as `run_on_device` does over the simulated caching allocator, every allocation and free, and
/// looks on. A profile without rates or memory (`Hardware{}`) gives no seconds and no limit. Errors as
/// `run_on_device`; also where nothing trains on the GPU or in the process that was chosen. O(events).
Result<Report> simulate(const Job& job, const Hardware& hardware, const SimulateOptions& options = {});

}  // namespace headroom
