#include "validator/memory/pinned_host.h"

#include <cuda_runtime_api.h>

#include "validator/cuda/check.h"

namespace headroom::gpu {

std::optional<allocator::Address> PinnedHost::allocate(Bytes bytes) {
  void* address = nullptr;
  const cudaError_t code = cudaHostAlloc(&address, static_cast<std::size_t>(bytes), cudaHostAllocDefault);
  if (code == cudaSuccess) return reinterpret_cast<allocator::Address>(address);
  static_cast<void>(cudaGetLastError());  // kept here: the runtime forgets it
  if (code != cudaErrorMemoryAllocation && error_)
    error_ = checked(code, "cudaHostAlloc", __FILE__, __LINE__);
  return std::nullopt;
}

void PinnedHost::free(allocator::Address address, Bytes) {
  const Status freed = HEADROOM_CUDA(cudaFreeHost(reinterpret_cast<void*>(address)));
  if (error_) error_ = freed;
}

}  // namespace headroom::gpu
