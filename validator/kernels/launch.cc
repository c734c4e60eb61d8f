#include "validator/kernels/launch.h"

#include <cuda_runtime_api.h>

#include <algorithm>

namespace headroom::gpu {

int multiprocessors() {
  static const int count = [] {
    int device = 0, value = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
      return 1;  // the runtime keeps the failure, and HEADROOM_LAUNCHED() after the launch returns it
    }
    return value;
  }();
  return count;
}

unsigned grid_for(std::int64_t items, std::int64_t per_block, int waves) {
  const std::int64_t needed = (items + per_block - 1) / per_block;
  return static_cast<unsigned>(
      std::clamp<std::int64_t>(needed, 1, static_cast<std::int64_t>(multiprocessors()) * waves));
}

}  // namespace headroom::gpu
