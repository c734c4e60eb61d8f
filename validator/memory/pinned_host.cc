#include "validator/memory/pinned_host.h"

#include <cuda_runtime_api.h>

namespace headroom::gpu {

std::optional<allocator::Address> PinnedHost::allocate(Bytes bytes) {
  void* address = nullptr;
  if (cudaHostAlloc(&address, static_cast<std::size_t>(bytes), cudaHostAllocDefault) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // an answer, not a failure: the runtime forgets it
    return std::nullopt;
  }
  return reinterpret_cast<allocator::Address>(address);
}

void PinnedHost::free(allocator::Address address, Bytes) {
  static_cast<void>(cudaFreeHost(reinterpret_cast<void*>(address)));
}

}  // namespace headroom::gpu
