#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/base/result.h"
#include "simulator/job/job.h"
#include "simulator/report/report.h"
#include "simulator/tape/core/tape.h"

namespace headroom::gpu {

/// What the driver and the system counted in one phase, beside the allocator's own counters in the report.
struct PhaseMeasurement {
  int step = 0;
  std::string phase;
  Bytes card_peak = 0;  ///< of the whole card: cudaMemGetInfo after every call that took memory
  Bytes card_end = 0;   ///< cudaMemGetInfo at the end of the phase
  Bytes nvml_card = 0;  ///< NVML at the end, all processes together
  Bytes nvml_process = 0, nvml_others = 0;  ///< 0 where NVML hides processes
  Bytes host_resident = 0;                  ///< of this process at the end
  Bytes pinned = 0;                         ///< page-locked, held at the end
  double seconds = 0;                       ///< with the card's work done
};

/// Operations of one kind and how many had no kernel.
struct KindCount {
  std::int64_t operations = 0, touched = 0;
  double bytes = 0, flops = 0;
};

/// A job run as real work on one card.
struct Probe {
  Report report;  ///< executor `gpu`: the allocator's counters over real memory
  std::vector<PhaseMeasurement> phases;
  std::string gpu;
  std::map<std::string, std::string> versions;
  Bytes used_by_others = 0;  ///< on the card before this process used it
  Bytes outside = 0;         ///< of this process before the job's first tensor: context, libraries
  std::map<std::string, KindCount> work;
  std::map<std::string, std::int64_t> touched;  ///< names of operations without a kernel
};

/// Runs the job of one rank on card `ordinal`: its program, shard sizes and steps as `simulate` runs them.
/// Running out of memory is a result: the phase's row has the allocator's message. Errors: no usable card,
/// a failing CUDA call, a job that no program covers.
Result<Probe> probe(const Job& job, const tape::DeviceTraits& traits, int ordinal);

}  // namespace headroom::gpu
