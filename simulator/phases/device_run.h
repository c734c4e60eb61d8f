#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
  executed_work,     ///< the same; work that a run leaves out, since it only repeats, adds no seconds
};

/// A GPU that stands for all of its pool that do the same. GPUs hold different parts of a model where a
/// pipeline's stages differ: there are as many kinds as the longest pipeline has stages, each of equally many
/// neighbouring ranks.
struct GpuKind {
  const Pool* pool = nullptr;
  std::int64_t rank = 0;  ///< the first of the kind, in its pool
  std::int64_t alike = 1;
  std::int64_t followed = 0;  ///< counted from the first: the one whose program runs, `Job::rank` where that is here
  bool holds(std::int64_t other) const { return other >= rank && other < rank + alike; }
};
/// Of all pools of `job`, in order. Pointers into `job`.
std::vector<GpuKind> gpu_kinds(const Job& job);

/// The same with the ranks of a data-parallel group apart where their parts of a distributed optimizer differ
/// (Megatron): in the order of the buffers the last rank's part holds the embedding, whole or in part, so its
/// copies are larger while they are made. The others of a stage count as the first.
std::vector<GpuKind> gpu_kinds_by_shard(const Job& job);

/// Runs a job's step, action by action, on one GPU of each kind with all processes that live there: trainers
/// over a Memory, rollout and reward engines by their accounts, contexts and communicators beside them. A
/// phase's peak is the highest sum at one moment.
///
/// The host side is a node's: what each of its GPUs' processes hold, loading at init, and the processes
/// themselves. Seconds come from the operations that the program runs. Out of memory is a result (in the
/// phase's row), not an error. Errors: the job violates `validate_job`, or holds what no program covers.
Result<Report> run_on_device(const Job& job, const Hardware& hardware, Fidelity fidelity);

/// Whether programs make the job's communicators between their tensors, as DeepSpeed's engines do; else they
/// are there before.
bool makes_communicators(const Job& job);

/// The same for the first pool with its trainer on a real machine, every allocation real, and with the
/// engines beside it as the machine's neighbours. Errors also: a second training process.
Result<Report> run_on_device(const Job& job, const Hardware& hardware, Machine& machine);

}  // namespace headroom
