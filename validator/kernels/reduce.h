#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "models/base/dtype.h"
#include "models/base/result.h"

/// Reductions to fp32; sums are not bit-for-bit repeatable where blocks add atomically.
namespace headroom::gpu {

enum class Reduce { sum, sum_of_squares, maximum };

/// *out (fp32, device) = the reduction of n elements; for sums with `add`, *out gains it.
Status reduce_all(Reduce, const void* x, DType, std::int64_t n, float* out, bool add, cudaStream_t stream);
/// out[r] = the reduction of row r.
Status reduce_rows(Reduce, const void* x, DType, std::int64_t rows, std::int64_t columns, float* out,
                   cudaStream_t stream);
/// out[c] (dtype) = sum over rows: the gradient of a bias.
Status sum_columns(const void* x, DType, std::int64_t rows, std::int64_t columns, void* out,
                   cudaStream_t stream);

}  // namespace headroom::gpu
