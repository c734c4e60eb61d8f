#pragma once

#include <cstdint>
#include <vector>

#include "simulator/device/megatron_groups.h"
#include "simulator/device/process.h"
#include "simulator/hardware/communicator.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"
#include "simulator/job/loop_kind.h"

namespace headroom {

/// Ranks to which a training process's rank sends and from which it receives outside rings.
struct Peers {
  std::int64_t send = 0, receive = 0;
  std::int64_t alone = 0;  ///< communicators of this rank alone
  std::int64_t nodes = 1;  ///< over which they lie
  bool operator==(const Peers&) const = default;
};

/// Of `rank` of a pool of `gpus`: everyone else in groups that exchange all to all (sequence parallelism,
/// Megatron's head exchange and routed experts), both neighbours of a ring of contexts, and the next and the
/// previous stage of a pipeline, which activations go one way through and gradients the other. Roles of one
/// process share their groups. Where sequence parallelism takes all ranks, each is alone in its
/// data-parallel group, which has a communicator too.
Peers peers_of(const Job& job, const Process& process, std::int64_t gpus, std::int64_t rank);

/// A training process's memory outside its allocator, as it grows: the context and its communicators from the
/// start; the code of PyTorch's kernels when the first of their kind runs; the cuBLAS handle with the first
/// matrix product; what peers need with the first pass through a model; a hybrid engine's workspace with its
/// first generation. Only the last is ever given back.
class OutsideGrowth {
 public:
  /// `communicators`: groups of such a span that the process uses; 0: none.
  OutsideGrowth(const Hardware& hardware, std::int64_t communicators, Span span, Peers peers = {});
  /// The groups of a Megatron rank, each made by the first action that uses it.
  OutsideGrowth(const Hardware& hardware, std::vector<GroupUse> groups);

  /// `action` of `role` (null: of none) is about to run: takes what it needs for the first time.
  void begin(const Action& action, const Role* role = nullptr);
  /// The hybrid engine's workspace is of so many bytes from now on; of engines that give it back, 0 again.
  void hold_generation(Bytes workspace);
  const OutsideAllocator& now() const { return now_; }

 private:
  void use(Verb verb);

  NcclMemory nccl_;
  std::vector<GroupUse> groups_;  ///< not used yet
  KernelModules unloaded_;
  Bytes cublas_handle_, peers_ = 0, generation_ = 0;
  OutsideAllocator now_;
};

}  // namespace headroom
