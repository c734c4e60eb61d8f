#pragma once

#include <cuda_runtime_api.h>

#include "models/base/result.h"
#include "validator/kernels/adamw_step.h"

namespace headroom::gpu {

/// Enqueues the step on `stream`; all pointers are the device's.
Status adamw(const AdamW&, cudaStream_t stream);

}  // namespace headroom::gpu
