#pragma once

#include "models/base/bytes.h"
#include "simulator/memory/component.h"

namespace headroom {

/// Memory of a process outside its allocator.
struct OutsideAllocator {
  Bytes context = 0;        ///< CUDA context and kernels loaded
  Bytes communicators = 0;  ///< NCCL's buffers
  Bytes workspaces = 0;     ///< libraries that allocate for themselves
  Bytes total() const { return context + communicators + workspaces; }
};

/// What a process holds on its device: what its allocator handed out, the rest of what that reserves as
/// `allocator_slack`, and what lies outside. Sums to reserved + outside. `reserved` is at least
/// `allocated.total()`.
Breakdown process_on_device(const Breakdown& allocated, Bytes reserved, const OutsideAllocator& outside);

}  // namespace headroom
