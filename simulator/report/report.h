#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/base/bytes.h"
#include "simulator/memory/component.h"
#include "simulator/time/seconds.h"

namespace headroom {

/// The one result model: every executor fills it, every writer prints it (`headroom.report/1`).

/// What one process did in one phase. Bytes as PyTorch's memory_stats counts them.
struct ProcessPhase {
  std::string process;             ///< trainer, rollout, reward_engine
  std::vector<std::string> roles;  ///< that acted
  std::int64_t rank = 0;
  Bytes allocated_start = 0, peak_allocated = 0, allocated_end = 0;
  Bytes reserved_start = 0, peak_reserved = 0, reserved_end = 0;
  std::optional<Bytes> reserved_after_empty;  ///< when the phase ends by emptying the cache
  Bytes peak_active = 0, inactive_split_end = 0;
  double fragmentation_at_peak = 0;  ///< (reserved - allocated) / reserved at the reserved peak
  std::int64_t n_allocs = 0, segments = 0, retries = 0;
  Bytes outside = 0;            ///< context, communicators and libraries of this process on the device
  Bytes communicators = 0;      ///< of these, a trainer's communicators
  Breakdown at_peak_allocated;  ///< at the first moment of that peak; sums to peak_allocated
  std::optional<std::string> out_of_memory;  ///< the allocator's message
};

/// A holder of memory at a peak: who made it, where, how much.
struct Holder {
  std::string module, operation;
  Component component = Component::other;
  Bytes bytes = 0;
  std::int64_t blocks = 0;
};

struct PhaseReport {
  int step = 0;  ///< init is -1, the first step 0
  std::string phase;
  std::string within;                    ///< the later row of the same step that covers this one, or empty
  Bytes peak_device = 0, peak_host = 0;  ///< peak_host: of the node
  std::optional<Bytes> expected_device;  ///< the same with expected instead of longest sequences, when asked
  Bytes margin = 0;
  double seconds = 0;
  Seconds spent;  ///< of these, on what
  Breakdown at_peak_device, at_peak_host;
  std::vector<ProcessPhase> processes;
  bool bounded = false;  ///< an upper bound (overlapping phases), not an executed interleaving
};

/// What a rollout engine decided when it started on a GPU, in the words of its own start-up log.
struct EngineReport {
  std::string engine, release;
  Bytes weights = 0;
  Bytes activation_peak = 0;  ///< of the start-up profile, beyond weights
  Bytes non_torch = 0;        ///< growth outside the allocator while profiling
  Bytes graphs = 0;
  Bytes kv_cache = 0;
  std::int64_t kv_tokens = 0, kv_blocks = 0;
  double concurrency = 0;  ///< requests of the longest length at once
  Bytes before = 0;        ///< context and communicators, before anything is loaded
  Bytes asleep = 0;        ///< all it holds while it sleeps
};

struct DeviceReport {
  std::int64_t device = 0;          ///< global GPU index of the one shown
  std::int64_t alike = 1;           ///< how many GPUs behave the same
  std::string pool;                 ///< empty, or the pool of separate rollout GPUs
  std::optional<Bytes> budget;      ///< of its pool, where that has one of its own
  std::vector<PhaseReport> phases;  ///< in order of execution
  std::vector<EngineReport> engines;  ///< started on it
  std::vector<Holder> holders;      ///< at its trainer's peak, largest first (simulate)
};

struct Warning {
  std::string code;  ///< kv-preemption, unmodelled-key, thin-margin …
  std::string message;
  std::string file;
  int line = 0;
  std::string key;
};

struct Report {
  std::string file;                        ///< the configuration, as it was named
  std::string title, framework, executor;  ///< executor: closed_form, simulator, gpu
  std::vector<std::pair<std::string, std::string>> understood;  ///< what the configuration says, for people
  bool fits = true;
  Bytes budget = 0;       ///< device bytes a GPU
  Bytes host_budget = 0;  ///< a node; 0: unchecked
  Bytes margin = 0;       ///< the largest applied
  std::vector<DeviceReport> devices;
  std::vector<Warning> warnings;
  double other_seconds = 0;  ///< of every step, given: what no phase covers
  std::vector<std::string> assumptions;
  std::vector<std::pair<std::string, std::string>> versions;
};

/// What `phase` of `device` leaves of its budget: budget − peak − margin.
Bytes spare(const Report& report, const DeviceReport& device, const PhaseReport& phase);

/// Where the least is left of a budget (with one budget for all: the highest device peak plus margin): the
/// device, the phase. Null on an empty report.
struct PeakPlace {
  const DeviceReport* device = nullptr;
  const PhaseReport* phase = nullptr;
};
PeakPlace highest(const Report& report);

/// One row a phase name, in order of first appearance: the step in which its device peak plus margin is
/// highest (the first such step). Pointers into `device`.
std::vector<const PhaseReport*> worst_steps(const DeviceReport& device);

/// The least that any phase of any device leaves of its budget; negative when the run does not fit.
Bytes spare(const Report& report);

}  // namespace headroom
