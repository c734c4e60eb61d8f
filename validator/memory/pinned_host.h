#pragma once

#include "models/base/result.h"
#include "simulator/allocator/host_memory.h"

namespace headroom::gpu {

/// Page-locked memory of this machine behind the policy of PyTorch's pinned allocator: cudaHostAlloc. Having
/// none left is an answer; any other failure is kept as the first `error()`.
class PinnedHost : public allocator::HostMemory {
 public:
  std::optional<allocator::Address> allocate(Bytes bytes) override;
  void free(allocator::Address address, Bytes bytes) override;
  const Status& error() const { return error_; }

 private:
  Status error_;
};

}  // namespace headroom::gpu
