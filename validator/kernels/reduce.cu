#include <cooperative_groups.h>

#include "validator/cuda/check.h"
#include "validator/kernels/launch.h"
#include "validator/kernels/numeric.cuh"
#include "validator/kernels/reduce.h"

namespace headroom::gpu {
namespace {

constexpr int kThreads = 512;

template <Reduce kind>
using Operator = std::conditional_t<kind == Reduce::maximum, Max, Sum>;

template <Reduce kind>
__device__ float accumulate(float total, float x) {
  if constexpr (kind == Reduce::sum_of_squares) return total + x * x;
  return Operator<kind>::join(total, x);
}

// Several packs in flight a thread: first all loads, then the sums.
template <class T, int Width, Reduce kind>
__device__ float reduce_range(const T* x, std::int64_t n, std::int64_t first, std::int64_t stride) {
  constexpr int kUnroll = 4;
  float total = Operator<kind>::kIdentity;
  std::int64_t p = first;
  const std::int64_t packs = n / Width;
  for (; p + (kUnroll - 1) * stride < packs; p += kUnroll * stride) {
    Pack<T, Width> loaded[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) loaded[u] = load_pack<T, Width>(x + (p + u * stride) * Width);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
#pragma unroll
      for (int j = 0; j < Width; ++j) total = accumulate<kind>(total, to_float(loaded[u].v[j]));
  }
  for (; p < packs; p += stride) {
    const auto pack = load_pack<T, Width>(x + p * Width);
#pragma unroll
    for (int j = 0; j < Width; ++j) total = accumulate<kind>(total, to_float(pack.v[j]));
  }
  for (std::int64_t i = packs * Width + first; i < n; i += stride)
    total = accumulate<kind>(total, to_float(x[i]));
  return total;
}

// Of floats of either sign: their order is that of integers after flipping the negative ones.
__device__ inline void atomic_max(float* to, float x) {
  if (x >= 0.0f) {
    atomicMax(reinterpret_cast<int*>(to), __float_as_int(x));
  } else {
    atomicMin(reinterpret_cast<unsigned*>(to), __float_as_uint(x));
  }
}

template <class T, int Width, Reduce kind>
__global__ void __launch_bounds__(kThreads) reduce_all_kernel(const T* x, std::int64_t n, float* out) {
  __shared__ float scratch[32];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  float total = reduce_range<T, Width, kind>(x, n, first, static_cast<std::int64_t>(gridDim.x) * kThreads);
  total = reduce_block<Operator<kind>>(total, scratch);
  if (threadIdx.x != 0) return;
  if constexpr (kind == Reduce::maximum) {
    atomic_max(out, total);
  } else {
    atomicAdd(out, total);
  }
}

template <class T, int Width, Reduce kind>
__global__ void __launch_bounds__(kThreads)
    reduce_rows_kernel(const T* x, std::int64_t rows, std::int64_t columns, float* out) {
  __shared__ float scratch[32];
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    float total = reduce_range<T, Width, kind>(x + r * columns, columns, threadIdx.x, kThreads);
    total = reduce_block<Operator<kind>>(total, scratch);
    if (threadIdx.x == 0) out[r] = total;
  }
}

__global__ void set_kernel(float* out, float value) {
  *out = value;
}

constexpr int kColumnRows = 32;   // threads that share a column within a block
constexpr int kColumnBlocks = 8;  // blocks that share it: a cluster

// A cluster sums all rows for 32 packs of columns: each thread a strip of rows, then the block, then the
// cluster through its blocks' shared memory.
template <class T, int Width>
__global__ void __cluster_dims__(1, kColumnBlocks, 1) __launch_bounds__(1024)
    sum_columns_kernel(const T* x, std::int64_t rows, std::int64_t columns, T* out) {
  namespace cg = cooperative_groups;
  __shared__ float sums[kColumnRows][32 * Width + 1];
  __shared__ float block_sums[32 * Width];
  constexpr int kUnroll = 4, kStride = kColumnRows * kColumnBlocks;
  const std::int64_t c = (static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x) * Width;
  float total[Width] = {};
  std::int64_t r = static_cast<std::int64_t>(blockIdx.y) * kColumnRows + threadIdx.y;
  const auto add = [&](const Pack<T, Width>& pack) {
#pragma unroll
    for (int j = 0; j < Width; ++j) total[j] += to_float(pack.v[j]);
  };
  if (c < columns) {
    for (; r + (kUnroll - 1) * kStride < rows; r += kUnroll * kStride) {
      Pack<T, Width> packs[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) packs[u] = load_pack<T, Width>(x + (r + u * kStride) * columns + c);
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) add(packs[u]);
    }
    for (; r < rows; r += kStride) add(load_pack<T, Width>(x + r * columns + c));
  }
#pragma unroll
  for (int j = 0; j < Width; ++j) sums[threadIdx.y][threadIdx.x * Width + j] = total[j];
  __syncthreads();
  const int at = threadIdx.y * 32 + threadIdx.x;
  float sum = 0.0f;
  if (at < 32 * Width) {
    for (int y = 0; y < kColumnRows; ++y) sum += sums[y][at];
    block_sums[at] = sum;
  }
  cg::cluster_group cluster = cg::this_cluster();
  cluster.sync();
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * 32 * Width + at;
  if (cluster.block_rank() == 0 && at < 32 * Width && column < columns) {
    for (int rank = 1; rank < kColumnBlocks; ++rank) sum += cluster.map_shared_rank(block_sums, rank)[at];
    out[column] = from_float<T>(sum);
  }
  cluster.sync();
}

template <class Launch>
Status with_reduction(Reduce kind, Launch launch) {
  switch (kind) {
    case Reduce::sum:
      return launch(std::integral_constant<Reduce, Reduce::sum>{});
    case Reduce::sum_of_squares:
      return launch(std::integral_constant<Reduce, Reduce::sum_of_squares>{});
    case Reduce::maximum:
      return launch(std::integral_constant<Reduce, Reduce::maximum>{});
  }
  return fail("reduce: unknown reduction");
}

}  // namespace

Status reduce_all(Reduce kind, const void* x, DType dtype, std::int64_t n, float* out, bool add,
                  cudaStream_t stream) {
  if (!add) {
    set_kernel<<<1, 1, 0, stream>>>(out, kind == Reduce::maximum ? -INFINITY : 0.0f);
    HEADROOM_TRY(HEADROOM_LAUNCHED());
  }
  if (n <= 0) return {};
  return with_float_type(dtype, [&]<class T>(TypeTag<T>) {
    return with_reduction(kind, [&]<Reduce R>(std::integral_constant<Reduce, R>) {
      constexpr int kWidth = 16 / sizeof(T);
      const auto* from = static_cast<const T*>(x);
      if (aligned16(from)) {
        reduce_all_kernel<T, kWidth, R>
            <<<grid_for(n, kThreads * kWidth * 4, 4), kThreads, 0, stream>>>(from, n, out);
      } else {
        reduce_all_kernel<T, 1, R><<<grid_for(n, kThreads, 4), kThreads, 0, stream>>>(from, n, out);
      }
      return HEADROOM_LAUNCHED();
    });
  });
}

Status reduce_rows(Reduce kind, const void* x, DType dtype, std::int64_t rows, std::int64_t columns,
                   float* out, cudaStream_t stream) {
  if (rows <= 0) return {};
  return with_float_type(dtype, [&]<class T>(TypeTag<T>) {
    return with_reduction(kind, [&]<Reduce R>(std::integral_constant<Reduce, R>) {
      constexpr int kWidth = 16 / sizeof(T);
      const auto* from = static_cast<const T*>(x);
      if (aligned16(from) && columns % kWidth == 0) {
        reduce_rows_kernel<T, kWidth, R>
            <<<grid_for(rows, 1, 16), kThreads, 0, stream>>>(from, rows, columns, out);
      } else {
        reduce_rows_kernel<T, 1, R><<<grid_for(rows, 1, 16), kThreads, 0, stream>>>(from, rows, columns, out);
      }
      return HEADROOM_LAUNCHED();
    });
  });
}

Status sum_columns(const void* x, DType dtype, std::int64_t rows, std::int64_t columns, void* out,
                   cudaStream_t stream) {
  if (columns <= 0) return {};
  return with_float_type(dtype, [&]<class T>(TypeTag<T>) {
    const auto launch = [&]<int W>(std::integral_constant<int, W>) {
      const auto grid = static_cast<unsigned>((columns + 32 * W - 1) / (32 * W));
      sum_columns_kernel<T, W><<<dim3(grid, kColumnBlocks), dim3(32, kColumnRows), 0, stream>>>(
          static_cast<const T*>(x), rows, columns, static_cast<T*>(out));
      return HEADROOM_LAUNCHED();
    };
    constexpr int kWidth = 8 / sizeof(T);
    return columns % kWidth == 0 && aligned16(x) ? launch(std::integral_constant<int, kWidth>{})
                                                 : launch(std::integral_constant<int, 1>{});
  });
}

}  // namespace headroom::gpu
