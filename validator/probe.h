#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/base/result.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"
#include "simulator/report/report.h"
#include "validator/launch/rendezvous.h"
#include "validator/work_ledger.h"

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

/// The ranks that ran together, and what NCCL took for them on this card.
struct Present {
  int ranks = 1, rank = 0;       ///< that ran, and which of them this is
  std::int64_t of_job = 1;       ///< GPUs of the job's training pool
  int communicators = 0;         ///< opened over all present ranks
  Bytes communicator_bytes = 0;  ///< measured: libraries, kernels and buffers of NCCL
};

/// A job run as real work on one card.
struct Probe {
  Report report;  ///< executor `gpu`: the allocator's counters over real memory
  std::vector<PhaseMeasurement> phases;
  std::string gpu;
  std::map<std::string, std::string> versions;
  Bytes used_by_others = 0;  ///< on the card before this process used it
  Bytes outside = 0;         ///< of this process beside the job's tensors: context, libraries, communicators
  Present present;
  std::map<std::string, Bytes> neighbours;  ///< processes that stood for engines: their measured contexts
  double launch = 0;  ///< seconds of launching an empty piece of work, measured after the phases; 0: it could not be
  WorkSummary work;
  std::vector<std::string> notes;  ///< what could not be measured, what was scaled
};

struct ProbeOptions {
  Hardware hardware;                    ///< what the program and engines beside the trainer are sized by
  int ordinal = 0;                      ///< which card
  launch::Rendezvous* ranks = nullptr;  ///< the ranks that run together, if several do
  /// Of the card, where an earlier probe of this process knows it: the driver then counts this process too.
  std::optional<Bytes> used_by_others = {};
};

/// Runs the job of one rank on a card: its program, shard sizes and steps as `simulate` runs them, with
/// NCCL's collectives among the ranks that are present, and with a second process for each rollout engine
/// that shares the card. Running out of memory is a result: the phase's row has the allocator's message.
/// Errors: no usable card, a failing CUDA or NCCL call, a job that no program covers.
Result<Probe> probe(const Job& job, const ProbeOptions& options);

/// True in a process that a probe started to stand for an engine. Such a process calls `serve_as_neighbour`
/// and exits with what that returns; an error: its parent is none that speaks to it.
bool is_neighbour();
Result<int> serve_as_neighbour();

}  // namespace headroom::gpu
