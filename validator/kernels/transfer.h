#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "models/base/bytes.h"
#include "models/base/dtype.h"
#include "models/base/result.h"

/// Moving and making bytes. Everything is enqueued on `stream`.
namespace headroom::gpu {

/// out[i] = in[i] between fp32, fp16 and bf16.
Status cast(const void* in, DType from, void* out, DType to, std::int64_t n, cudaStream_t stream);
/// Bytes as they are; the ranges do not overlap.
Status copy(const void* in, void* out, Bytes bytes, cudaStream_t stream);
/// `rows` rows of `row_bytes` between two pitches: slices, cat, pad.
Status copy_rows(const void* in, Bytes in_pitch, void* out, Bytes out_pitch, Bytes row_bytes,
                 std::int64_t rows, cudaStream_t stream);
/// [a, b, c] -> [b, a, c], elements of `element_bytes` 1, 2, 4, 8 (transposes and head permutations).
Status permute(const void* in, void* out, std::int64_t a, std::int64_t b, std::int64_t c, int element_bytes,
               cudaStream_t stream);
/// Every element becomes `value`; integer dtypes included.
Status fill(void* out, float value, DType, std::int64_t n, cudaStream_t stream);
/// Uniform random numbers in [low, high); integer dtypes are truncated. The same seed gives the same numbers.
Status fill_random(void* out, float low, float high, std::uint64_t seed, DType, std::int64_t n,
                   cudaStream_t stream);
/// Writes every byte of [out, out + bytes): stands in for an operation without a kernel.
Status touch(void* out, Bytes bytes, cudaStream_t stream);

}  // namespace headroom::gpu
