#include "validator/calibrate/arena.h"

#include <algorithm>

#include "validator/kernels/transfer.h"

namespace headroom::gpu {

Result<Arena> Arena::create(Bytes bytes) {
  HEADROOM_ASSIGN(DeviceBlock block, make_device_block(bytes));
  HEADROOM_TRY(fill_random(block.get(), -1.0f, 1.0f, 17, DType::bf16, bytes / 2, nullptr));
  HEADROOM_TRY(HEADROOM_CUDA(cudaDeviceSynchronize()));
  return Arena(std::move(block), bytes);
}

void* Arena::place(int run, int slots, int slot, Bytes bytes) const {
  const Bytes step = round_up(bytes, 256);
  const Bytes sets = std::max<Bytes>(1, bytes_ / (step * slots));
  return static_cast<char*>(block_.get()) + (run % sets * slots + slot) * step;
}

}  // namespace headroom::gpu
