#include "validator/kernels/finite.h"
#include "validator/kernels/map.cuh"

namespace headroom::gpu {
namespace {

constexpr int kThreads = 256;

struct Same {
  __device__ float operator()(float x) const { return x; }
};
struct IsNan {
  __device__ float operator()(float x) const { return isnan(x) ? 1.0f : 0.0f; }
};
struct IsInfinite {
  __device__ float operator()(float x) const { return isinf(x) ? 1.0f : 0.0f; }
};
struct Either {
  __device__ float operator()(float a, float b) const { return a != 0.0f || b != 0.0f ? 1.0f : 0.0f; }
};

__global__ void clear_kernel(double* out) {
  *out = 0.0;
}

__global__ void root_kernel(double* out) {
  *out = sqrt(*out);
}

// Several pairs in flight a thread, then the warp, then the block.
__global__ void __launch_bounds__(kThreads)
    sum_of_squares_kernel(const double* x, std::int64_t n, double* out) {
  __shared__ double warps[kThreads / 32];
  constexpr int kUnroll = 4;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  double total = 0.0;
  std::int64_t i = first;
  for (; i + (kUnroll - 1) * stride < n; i += kUnroll * stride) {
    double loaded[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) loaded[u] = x[i + u * stride];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) total += loaded[u] * loaded[u];
  }
  for (; i < n; i += stride) total += x[i] * x[i];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) total += __shfl_xor_sync(0xffffffffu, total, distance);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = total;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kThreads / 32; ++warp) total += warps[warp];
  atomicAdd(out, total);
}

}  // namespace

Status widen(const void* in, DType from, double* out, std::int64_t n, cudaStream_t stream) {
  return with_float_type(
      from, [&]<class In>(TypeTag<In>) { return map(Same{}, n, stream, out, static_cast<const In*>(in)); });
}

Status norm(const double* x, std::int64_t n, double* out, cudaStream_t stream) {
  clear_kernel<<<1, 1, 0, stream>>>(out);
  HEADROOM_TRY(HEADROOM_LAUNCHED());
  if (n > 0) {
    sum_of_squares_kernel<<<grid_for(n, kThreads * 4, 8), kThreads, 0, stream>>>(x, n, out);
    HEADROOM_TRY(HEADROOM_LAUNCHED());
  }
  root_kernel<<<1, 1, 0, stream>>>(out);
  return HEADROOM_LAUNCHED();
}

Status ask(Ask what, const void* in, DType dtype, std::uint8_t* out, std::int64_t n, cudaStream_t stream) {
  return with_float_type(dtype, [&]<class In>(TypeTag<In>) {
    const auto* from = static_cast<const In*>(in);
    return what == Ask::is_nan ? map(IsNan{}, n, stream, out, from) : map(IsInfinite{}, n, stream, out, from);
  });
}

Status either(const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* out, std::int64_t n,
              cudaStream_t stream) {
  return map(Either{}, n, stream, out, a, b);
}

}  // namespace headroom::gpu
