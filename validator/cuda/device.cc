#include "validator/cuda/device.h"

#include <fmt/format.h>

#include <array>

#include "validator/cuda/check.h"

namespace headroom::gpu {

Result<int> card_count() {
  int count = 0, driver = 0, runtime = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  return cards_or_reason(code, count, driver, runtime);
}

Result<int> cards_or_reason(cudaError_t code, int count, int driver, int runtime) {
  switch (code) {
    case cudaSuccess:
      break;
    case cudaErrorInsufficientDriver: {
      if (driver == 0) return fail("no NVIDIA driver was found: expected a machine with an NVIDIA GPU");
      return fail(fmt::format("the NVIDIA driver is too old: expected one for CUDA {}.{}, found CUDA {}.{}",
                              runtime / 1000, runtime / 10 % 100, driver / 1000, driver / 10 % 100));
    }
    case cudaErrorNoDevice:
      count = 0;
      break;
    default:
      return fail(fmt::format("no NVIDIA GPU can be used: {}", cudaGetErrorString(code)));
  }
  if (count == 0)
    return fail("no NVIDIA GPU was found: expected at least one (is CUDA_VISIBLE_DEVICES set?)");
  return count;
}

namespace {

// The first contact makes the context, for which a card may have no room left or no permission.
Status select(int ordinal) {
  const cudaError_t code = cudaSetDevice(ordinal);
  switch (code) {
    case cudaErrorMemoryAllocation:
      return fail(fmt::format(
          "GPU {} is busy: other processes hold so much of its memory that none is left for a context; "
          "expected a card with free memory",
          ordinal));
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceAlreadyInUse:
      return fail(fmt::format(
          "GPU {} is busy: another process uses it alone, or its mode allows no process; expected a "
          "card that can be shared",
          ordinal));
    default:
      return checked(code, "cudaSetDevice(ordinal)", __FILE__, __LINE__);
  }
}

}  // namespace

Result<Card> open_card(int ordinal) {
  HEADROOM_ASSIGN(const int count, card_count());
  if (ordinal < 0 || ordinal >= count) {
    return fail(fmt::format("GPU {} does not exist: this process sees {}", ordinal, count));
  }
  HEADROOM_TRY(select(ordinal));
  cudaDeviceProp properties{};
  HEADROOM_TRY(HEADROOM_CUDA(cudaGetDeviceProperties(&properties, ordinal)));
  Card card{.ordinal = ordinal,
            .name = properties.name,
            .pci_bus_id = {},
            .compute_major = properties.major,
            .compute_minor = properties.minor,
            .multiprocessors = properties.multiProcessorCount,
            .l2 = properties.l2CacheSize};
  if (card.compute_major < 9) {
    return fail(
        fmt::format("{} has compute capability {}.{}: this build's kernels need 9.0 (H100, H200) or newer",
                    card.name, card.compute_major, card.compute_minor));
  }
  std::array<char, 32> bus{};
  HEADROOM_TRY(HEADROOM_CUDA(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), ordinal)));
  card.pci_bus_id = bus.data();
  HEADROOM_TRY(HEADROOM_CUDA(cudaDriverGetVersion(&card.driver_cuda)));
  HEADROOM_TRY(HEADROOM_CUDA(cudaRuntimeGetVersion(&card.runtime_cuda)));
  HEADROOM_ASSIGN(const DeviceUse use, device_use());
  card.memory = use.total;
  return card;
}

Result<DeviceUse> device_use() {
  std::size_t free = 0, total = 0;
  HEADROOM_TRY(HEADROOM_CUDA(cudaMemGetInfo(&free, &total)));
  return DeviceUse{.used = static_cast<Bytes>(total - free), .total = static_cast<Bytes>(total)};
}

}  // namespace headroom::gpu
