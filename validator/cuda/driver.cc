#include "validator/cuda/driver.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

namespace headroom::gpu {
namespace {

// Every call used here exists since CUDA 10.2; 12.0 is the oldest driver generation that the runtime accepts.
constexpr unsigned kApiVersion = 12000;

template <class Function>
Status find(const char* name, Function& function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
  cudaError_t code = cudaGetDriverEntryPointByVersion(name, &address, kApiVersion, cudaEnableDefault, &found);
  if (code != cudaSuccess || found != cudaDriverEntryPointSuccess || address == nullptr) {
    return fail(fmt::format("the CUDA driver has no {}: expected a driver for CUDA 12 or newer", name));
  }
  function = reinterpret_cast<Function>(address);
  return {};
}

Result<Driver> load() {
  Driver d;
  HEADROOM_TRY(find("cuGetErrorString", d.error_string));
  HEADROOM_TRY(find("cuMemGetAllocationGranularity", d.granularity));
  HEADROOM_TRY(find("cuMemAddressReserve", d.address_reserve));
  HEADROOM_TRY(find("cuMemAddressFree", d.address_free));
  HEADROOM_TRY(find("cuMemCreate", d.create));
  HEADROOM_TRY(find("cuMemRelease", d.release));
  HEADROOM_TRY(find("cuMemMap", d.map));
  HEADROOM_TRY(find("cuMemUnmap", d.unmap));
  HEADROOM_TRY(find("cuMemSetAccess", d.set_access));
  return d;
}

}  // namespace

Result<const Driver*> Driver::get() {
  static const Result<Driver> driver = load();
  if (!driver) return fail(driver.error());
  return &*driver;
}

}  // namespace headroom::gpu
