#pragma once

#include <cuda.h>

#include "models/base/result.h"

namespace headroom::gpu {

/// The driver's virtual-memory calls, found at run time through the CUDA runtime, so that the binary also
/// starts where no driver is installed.
struct Driver {
  decltype(&cuGetErrorString) error_string = nullptr;
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemAddressReserve) address_reserve = nullptr;
  decltype(&cuMemAddressFree) address_free = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;

  /// The table, filled on the first call; an error where no driver is found or it lacks one of the calls.
  static Result<const Driver*> get();
};

}  // namespace headroom::gpu
