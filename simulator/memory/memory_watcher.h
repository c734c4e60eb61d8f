#pragma once

#include "simulator/allocator/block.h"
#include "simulator/memory/operation.h"

namespace headroom {

/// Looks on at a SimulatedMemory without standing between it and the program, so that repetitions stay left out.
class MemoryWatcher {
 public:
  virtual ~MemoryWatcher() = default;
  /// An allocation of that label is about to be served.
  virtual void allocating(Label label) = 0;
  /// A live block is about to get another label.
  virtual void relabelling(allocator::BlockId block) = 0;
  /// Something was allocated, freed, given back, or repeated without being executed.
  virtual void changed() = 0;
};

}  // namespace headroom
