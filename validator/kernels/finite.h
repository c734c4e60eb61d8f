#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "models/base/dtype.h"
#include "models/base/result.h"

/// What loss scalers and clipping ask of gradients: norms in double precision, and whether all of it is
/// finite. Flags are bytes, 0 or 1. Everything is enqueued on `stream`.
namespace headroom::gpu {

enum class Ask { is_nan, is_infinite };

/// out[i] = in[i], from fp32, fp16 or bf16.
Status widen(const void* in, DType from, double* out, std::int64_t n, cudaStream_t stream);
/// *out = sqrt(sum of squares)
Status norm(const double* x, std::int64_t n, double* out, cudaStream_t stream);
/// out[i]: is in[i] (fp32, fp16 or bf16) so?
Status ask(Ask, const void* in, DType, std::uint8_t* out, std::int64_t n, cudaStream_t stream);
/// out[i] = a[i] or b[i]
Status either(const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* out, std::int64_t n,
              cudaStream_t stream);

}  // namespace headroom::gpu
