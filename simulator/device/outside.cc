#include "simulator/device/outside.h"

#include <utility>

#include "simulator/hardware/communicator.h"

namespace headroom {

OutsideGrowth::OutsideGrowth(const Hardware& hardware, std::int64_t communicators, std::int64_t ranks)
    : unloaded_(hardware.kernels), cublas_handle_(hardware.cublas_handle) {
  now_.context = hardware.context;
  if (communicators > 0)
    now_.communicators =
        first_communicator_bytes(hardware.nccl) + communicators * communicator_bytes(hardware.nccl, ranks);
}

void OutsideGrowth::begin(const Action& action) {
  const bool generates = action.verb == Verb::generate && action.engine.empty();
  const bool trains = action.verb == Verb::train || action.verb == Verb::loss;
  now_.context += std::exchange(unloaded_.first, 0);
  if (generates || trains || action.verb == Verb::forward) {
    now_.context += std::exchange(unloaded_.forward, 0);
    now_.workspaces += std::exchange(cublas_handle_, 0);
  }
  if (generates) now_.context += std::exchange(unloaded_.generate, 0);
  if (trains) now_.context += std::exchange(unloaded_.train, 0);
}

}  // namespace headroom
