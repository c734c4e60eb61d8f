#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "models/base/dtype.h"
#include "models/base/result.h"

/// Element by element, over dense ranges of device memory: `n` elements of one floating dtype (fp32, fp16,
/// bf16) unless said otherwise; arithmetic in fp32. Everything is enqueued on `stream`.
namespace headroom::gpu {

enum class Unary {
  negate,
  exponential,
  sigmoid,
  silu,
  gelu,
  gelu_tanh,
  relu,
  hyperbolic_tangent,
  reciprocal_root
};
enum class Binary { add, subtract, multiply, divide, maximum };
/// Activations whose gradient is taken from their input.
enum class Activation { silu, gelu, gelu_tanh, relu };

Status unary(Unary, const void* in, void* out, DType, std::int64_t n, cudaStream_t stream);
Status binary(Binary, const void* a, const void* b, void* out, DType, std::int64_t n, cudaStream_t stream);
/// out = a + scale * b
Status add_scaled(const void* a, const void* b, float scale, void* out, DType, std::int64_t n,
                  cudaStream_t stream);
/// out = scale * in + shift
Status scale_shift(const void* in, float scale, float shift, void* out, DType, std::int64_t n,
                   cudaStream_t stream);
/// out[r, c] = in[r, c] + bias[c]
Status add_bias(const void* in, const void* bias, void* out, DType, std::int64_t rows, std::int64_t columns,
                cudaStream_t stream);
/// d_in = d_out * activation'(in)
Status activation_backward(Activation, const void* in, const void* d_out, void* d_in, DType, std::int64_t n,
                           cudaStream_t stream);
/// out = silu(gate) * up
Status swiglu(const void* gate, const void* up, void* out, DType, std::int64_t n, cudaStream_t stream);
Status swiglu_backward(const void* gate, const void* up, const void* d_out, void* d_gate, void* d_up, DType,
                       std::int64_t n, cudaStream_t stream);
/// out = in where kept, scaled by 1 / (1 - p), else 0; mask[i] (one byte) tells which. The same seed keeps
/// the same.
Status dropout(const void* in, void* out, void* mask, float p, std::uint64_t seed, DType, std::int64_t n,
               cudaStream_t stream);
/// d_in = d_out * mask / (1 - p)
Status dropout_backward(const void* d_out, const void* mask, void* d_in, float p, DType, std::int64_t n,
                        cudaStream_t stream);

}  // namespace headroom::gpu
