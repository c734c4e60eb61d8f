#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "models/base/result.h"

namespace headroom::gpu {

/// Seconds that `work` takes on `stream`, by device events: the median of `repeats` runs after two that warm
/// up. `work` gets the run's number, so that it can rotate among buffers.
Result<double> median_seconds(int repeats, cudaStream_t stream, const std::function<Status(int)>& work);

}  // namespace headroom::gpu
