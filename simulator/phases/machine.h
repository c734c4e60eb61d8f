#pragma once

#include <string>

#include "models/base/result.h"
#include "simulator/allocator/device.h"
#include "simulator/memory/memory.h"
#include "simulator/report/report.h"

namespace headroom {

class SimulatedMemory;

/// A real machine on which a job's program runs: the allocators' policies stay, what they take their memory
/// from and the work between allocations become real.
class Machine {
 public:
  virtual ~Machine() = default;

  /// What the caching allocator takes its segments from.
  virtual allocator::Device& device() = 0;
  /// The Memory that the program calls: passes every call on to `accounts`, and works.
  virtual Memory& attach(SimulatedMemory& accounts) = 0;
  /// A communicator of the job comes to exist here, among the tensors (see makes_communicators). A failure
  /// shows at the end of the phase.
  virtual void make_communicator() = 0;
  /// The program is over and its tensors are gone; `accounts` goes next.
  virtual void detach() = 0;
  /// Around every phase. An error ends the run.
  virtual Status begin_phase() = 0;
  /// Another process of the same device, an engine, passes through `highest` bytes in all and then holds
  /// `after`. False: the device had no room.
  virtual Result<bool> neighbour(const std::string& process, Bytes highest, Bytes after) = 0;
  virtual Status end_phase(PhaseReport& row) = 0;
};

}  // namespace headroom
