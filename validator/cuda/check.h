#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "models/base/result.h"

namespace headroom::gpu {

/// What a CUDA call returned, as a value: success, or an Error with the expression, the code's name and text
/// and the place of the call. Use through HEADROOM_CUDA.
Status checked(cudaError_t code, const char* expression, const char* file, int line);
Status checked(CUresult code, const char* expression, const char* file, int line);

}  // namespace headroom::gpu

/// The Status of one runtime or driver call: `HEADROOM_TRY(HEADROOM_CUDA(cudaMemcpy(…)));`
#define HEADROOM_CUDA(expression) ::headroom::gpu::checked((expression), #expression, __FILE__, __LINE__)

/// The Status of the kernel launch just above it.
#define HEADROOM_LAUNCHED() HEADROOM_CUDA(cudaGetLastError())
