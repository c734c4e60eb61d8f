#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/bytes.h"
#include "models/base/result.h"
#include "simulator/allocator/caching_allocator.h"
#include "simulator/allocator/observer.h"
#include "simulator/allocator/out_of_memory.h"
#include "simulator/replay/stream.h"

namespace headroom::replay {

/// One row of the what-if table.
struct WhatIfSetting {
  std::string name;
  std::string conf;                  ///< what to export as PYTORCH_CUDA_ALLOC_CONF
  bool empty_at_phase_ends = false;  ///< torch.cuda.empty_cache() whenever a phase ends
  bool needs_limit = false;          ///< has no effect without one
  bool switches = false;             ///< expandable segments go on and off as recorded
};

/// The settings that are tried by default.
std::span<const WhatIfSetting> default_what_if_settings();

/// What the stream would have taken. Counted from after the blocks that were there before the recording.
struct WhatIfOutcome {
  WhatIfSetting setting;
  Bytes peak_allocated = 0, peak_reserved = 0, reserved_end = 0;
  std::int64_t retries = 0;        ///< times that the cache was released because the device had no more
  std::int64_t device_allocs = 0;  ///< calls of the driver for memory: each costs time, the more the larger
  std::int64_t device_frees = 0;
  /// The first allocation that failed; the run ends there.
  std::optional<allocator::OutOfMemory> out_of_memory;
  std::size_t failed_event = 0;
  std::string failed_phase;
  std::string skipped;  ///< why this row was not run; empty: it was
};

/// Sees a stream's run: each event before it is executed, what the allocator does for it, and the end.
class StreamObserver {
 public:
  virtual ~StreamObserver() = default;
  virtual void before(const StreamEvent&) {}
  virtual allocator::Observer* allocator_observer() { return nullptr; }
  virtual void after_run(const allocator::CachingAllocator&, std::string_view /*conf*/) {}
};

/// Executes a stream under a setting. With a limit, the device has no more than these bytes for this process;
/// garbage collection then works as with a memory fraction of that size. An error only for a setting string
/// that PyTorch would refuse.
///
/// Takes about 30 ns an event, and memory for four bytes an allocation.
Result<WhatIfOutcome> run_setting(const AllocationStream& stream, const WhatIfSetting& setting,
                                  std::optional<Bytes> limit, StreamObserver* observer = nullptr);

struct WhatIf {
  WhatIfOutcome baseline;               ///< the settings that the stream was recorded under
  std::vector<WhatIfOutcome> outcomes;  ///< in the order of the settings
  std::optional<Bytes> limit;
  /// Where nothing fits in the limit: the peak of allocated memory without one.
  std::optional<Bytes> needed;
  std::string advice;            ///< one sentence
  std::string export_conf;       ///< the setting advised; empty: none is better
  bool export_emptying = false;  ///< the advice is to empty the cache at phase ends
};

/// The whole table, rows in parallel on `threads` threads (0: as the machine has cores).
Result<WhatIf> what_if(const AllocationStream& stream, std::span<const WhatIfSetting> settings,
                       std::optional<Bytes> limit, unsigned threads = 0);

}  // namespace headroom::replay
