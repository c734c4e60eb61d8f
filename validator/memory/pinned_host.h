#pragma once

#include "simulator/allocator/host_memory.h"

namespace headroom::gpu {

/// Page-locked memory of this machine behind the policy of PyTorch's pinned allocator: cudaHostAlloc.
class PinnedHost : public allocator::HostMemory {
 public:
  std::optional<allocator::Address> allocate(Bytes bytes) override;
  void free(allocator::Address address, Bytes bytes) override;
};

}  // namespace headroom::gpu
