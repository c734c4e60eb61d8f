#pragma once

#include "models/base/result.h"
#include "validator/cuda/device.h"
#include "validator/launch/rendezvous.h"
#include "validator/measurements.h"

namespace headroom::gpu {

/// Records what each action leaves on the card, in order.
class MemoryLog {
 public:
  explicit MemoryLog(Measurements& out) : out_(out) {}
  /// What came before the first record.
  void start(Bytes used) { last_ = used; }
  Status record(std::string action);

 private:
  Measurements& out_;
  Bytes last_ = 0;
};

/// The parts that a process takes one after the other: context (by NVML, from before it existed), first
/// kernels, cuBLAS, a stream, captured graphs. Must run first in the process.
Result<Card> measure_process(int ordinal, Measurements& out, MemoryLog& log);

/// The parts of NCCL: first communicator, first of each collective, a large one, two further groups, sends.
Status measure_communicators(launch::Rendezvous& ranks, Measurements& out, MemoryLog& log);

}  // namespace headroom::gpu
