#include <cooperative_groups.h>

#include "validator/cuda/check.h"
#include "validator/kernels/launch.h"
#include "validator/kernels/numeric.cuh"
#include "validator/kernels/softmax.h"

namespace headroom::gpu {
namespace {

namespace cg = cooperative_groups;

constexpr int kThreads = 512;
// A row is spread over the shared memory of a cluster of blocks and so is read from device memory once. Two
// blocks share a multiprocessor: one loads while the other computes.
constexpr int kMaxCluster = 8;
constexpr std::int64_t kPartBytes = 100 * 1024;

/// A running maximum with the sum of exponentials below it.
struct OnlineSum {
  float max = -INFINITY, sum = 0.0f;

  __device__ void add(float x) {
    if (x > max) {
      sum *= __expf(max - x);
      max = x;
    }
    sum += __expf(x - max);
  }
};

/// The block's part of a row, in chunks of Width elements.
template <class T, int Width, class Body>
__device__ void for_row(const T* row, std::int64_t columns, Body body) {
  constexpr int kUnroll = 4;
  const std::int64_t packs = columns / Width;
  std::int64_t p = threadIdx.x;
  for (; p + (kUnroll - 1) * blockDim.x < packs; p += kUnroll * blockDim.x) {
    Pack<T, Width> x[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) x[u] = load_pack<T, Width>(row + (p + u * blockDim.x) * Width);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) body((p + u * blockDim.x) * Width, x[u]);
  }
  for (; p < packs; p += blockDim.x) body(p * Width, load_pack<T, Width>(row + p * Width));
}

/// Adds up one float over the cluster; `slot` is shared memory of one float.
template <class Operator>
__device__ float reduce_cluster(float x, float* scratch, float* slot) {
  cg::cluster_group cluster = cg::this_cluster();
  x = reduce_block<Operator>(x, scratch);
  if (cluster.num_blocks() == 1) return x;
  if (threadIdx.x == 0) *slot = x;
  cluster.sync();
  float all = Operator::kIdentity;
  for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank) {
    all = Operator::join(all, *cluster.map_shared_rank(slot, rank));
  }
  cluster.sync();
  return all;
}

/// Where a block's part of a row begins and how long it is; parts are whole packs.
template <int Width>
struct Part {
  std::int64_t begin, count;
  __device__ explicit Part(std::int64_t columns) {
    cg::cluster_group cluster = cg::this_cluster();
    const std::int64_t packs = columns / Width;
    const std::int64_t each = (packs + cluster.num_blocks() - 1) / cluster.num_blocks();
    begin = min(static_cast<std::int64_t>(cluster.block_rank()) * each, packs) * Width;
    count = min(each * Width, columns - begin);
  }
};

extern __shared__ __align__(16) unsigned char part_memory[];

template <class T, int Width, bool log>
__global__ void __launch_bounds__(kThreads) softmax_kernel(Rows shape, const T* x, T* y) {
  __shared__ float scratch[32], slot;
  const Part<Width> part(shape.columns);
  T* kept = reinterpret_cast<T*>(part_memory);
  const unsigned cluster_size = cg::this_cluster().num_blocks();
  for (std::int64_t r = blockIdx.x / cluster_size; r < shape.rows; r += gridDim.x / cluster_size) {
    OnlineSum online;
    for_row<T, Width>(x + r * shape.columns + part.begin, part.count,
                      [&](std::int64_t at, const Pack<T, Width>& pack) {
                        store_pack<T, Width>(kept + at, pack);
#pragma unroll
                        for (int j = 0; j < Width; ++j) online.add(to_float(pack.v[j]));
                      });
    const float top = reduce_cluster<Max>(online.max, scratch, &slot);
    const float scaled = online.max == -INFINITY ? 0.0f : online.sum * __expf(online.max - top);
    const float sum = reduce_cluster<Sum>(scaled, scratch, &slot);
    const float inverse = 1.0f / sum, log_sum = top + __logf(sum);
    T* out = y + r * shape.columns + part.begin;
    for_row<T, Width>(kept, part.count, [&](std::int64_t at, Pack<T, Width> pack) {
#pragma unroll
      for (int j = 0; j < Width; ++j) {
        const float v = to_float(pack.v[j]);
        pack.v[j] = from_float<T>(log ? v - log_sum : __expf(v - top) * inverse);
      }
      store_pack<T, Width>(out + at, pack);
    });
  }
}

template <class T, int Width, bool log>
__global__ void __launch_bounds__(kThreads)
    softmax_backward_kernel(Rows shape, const T* y, const T* d_y, T* d_x) {
  __shared__ float scratch[32], slot;
  const Part<Width> part(shape.columns);
  T* kept = reinterpret_cast<T*>(part_memory);
  T* kept_y = kept + (part.count + 7) / 8 * 8;
  const unsigned cluster_size = cg::this_cluster().num_blocks();
  for (std::int64_t r = blockIdx.x / cluster_size; r < shape.rows; r += gridDim.x / cluster_size) {
    const std::int64_t row = r * shape.columns + part.begin;
    float sum = 0.0f;
    for_row<T, Width>(d_y + row, part.count, [&](std::int64_t at, const Pack<T, Width>& d) {
      const auto forward = load_pack<T, Width>(y + row + at);
      store_pack<T, Width>(kept + at, d);
      store_pack<T, Width>(kept_y + at, forward);
#pragma unroll
      for (int j = 0; j < Width; ++j) sum += to_float(d.v[j]) * (log ? 1.0f : to_float(forward.v[j]));
    });
    sum = reduce_cluster<Sum>(sum, scratch, &slot);
    for_row<T, Width>(kept, part.count, [&](std::int64_t at, Pack<T, Width> d) {
      const auto forward = load_pack<T, Width>(kept_y + at);
#pragma unroll
      for (int j = 0; j < Width; ++j) {
        const float p = to_float(forward.v[j]), g = to_float(d.v[j]);
        d.v[j] = from_float<T>(log ? g - __expf(p) * sum : p * (g - sum));
      }
      store_pack<T, Width>(d_x + row + at, d);
    });
  }
}

/// One block a row: online maximum and sum, plus what `extra` gathers; `finish(row, max, sum)` in thread 0.
template <class T, int Width, class Finish>
__device__ void reduce_rows(const Rows& shape, const T* x, Finish finish) {
  __shared__ float scratch[32];
  for (std::int64_t r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    OnlineSum online;
    for_row<T, Width>(x + r * shape.columns, shape.columns, [&](std::int64_t, const Pack<T, Width>& pack) {
#pragma unroll
      for (int j = 0; j < Width; ++j) online.add(to_float(pack.v[j]));
    });
    const float top = reduce_block<Max>(online.max, scratch);
    const float scaled = online.max == -INFINITY ? 0.0f : online.sum * __expf(online.max - top);
    const float sum = reduce_block<Sum>(scaled, scratch);
    finish(r, top, sum);
  }
}

template <class T, int Width>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_kernel(Rows shape, const T* x, const std::int64_t* target, float* loss, float* logsumexp) {
  reduce_rows<T, Width>(shape, x, [&](std::int64_t r, float top, float sum) {
    if (threadIdx.x != 0) return;
    const float lse = top + __logf(sum);
    if (logsumexp != nullptr) logsumexp[r] = lse;
    const std::int64_t t = target[r];
    loss[r] = t < 0 ? 0.0f : lse - to_float(x[r * shape.columns + t]);
  });
}

template <class T, int Width>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_backward_kernel(Rows shape, const T* x, const std::int64_t* target, const float* logsumexp,
                                  const float* d_loss, T* d_x) {
  for (std::int64_t r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    const std::int64_t row = r * shape.columns, t = target[r];
    const float lse = logsumexp[r], d = t < 0 ? 0.0f : d_loss[r];
    for_row<T, Width>(x + row, shape.columns, [&](std::int64_t at, Pack<T, Width> pack) {
#pragma unroll
      for (int j = 0; j < Width; ++j) {
        const float p = __expf(to_float(pack.v[j]) - lse) - (at + j == t ? 1.0f : 0.0f);
        pack.v[j] = from_float<T>(p * d);
      }
      store_pack<T, Width>(d_x + row + at, pack);
    });
  }
}

template <class T, int Width>
__global__ void __launch_bounds__(kThreads) entropy_kernel(Rows shape, const T* x, float* out) {
  __shared__ float scratch[32];
  for (std::int64_t r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    OnlineSum online;
    float weighted = 0.0f;  // sum of exp(v - max) v below the same running maximum
    for_row<T, Width>(x + r * shape.columns, shape.columns, [&](std::int64_t, const Pack<T, Width>& pack) {
#pragma unroll
      for (int j = 0; j < Width; ++j) {
        const float v = to_float(pack.v[j]), before = online.max;
        online.add(v);
        if (online.max != before) weighted *= __expf(before - online.max);
        weighted += __expf(v - online.max) * v;
      }
    });
    const float top = reduce_block<Max>(online.max, scratch);
    const float scale = online.max == -INFINITY ? 0.0f : __expf(online.max - top);
    const float sum = reduce_block<Sum>(online.sum * scale, scratch);
    weighted = reduce_block<Sum>(weighted * scale, scratch);
    if (threadIdx.x == 0) out[r] = top + __logf(sum) - weighted / sum;
  }
}

// The largest of x / temperature + Gumbel noise is a draw from the softmax.
template <class T, int Width>
__global__ void __launch_bounds__(kThreads) sample_kernel(Rows shape, const T* x, float inverse_temperature,
                                                          std::uint64_t seed, std::int64_t* token) {
  __shared__ float scratch[32];
  __shared__ unsigned long long winner;
  for (std::int64_t r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    float best = -INFINITY;
    std::int64_t where = 0;
    for_row<T, Width>(x + r * shape.columns, shape.columns, [&](std::int64_t at, const Pack<T, Width>& pack) {
#pragma unroll
      for (int j = 0; j < Width; ++j) {
        float score = to_float(pack.v[j]);
        if (inverse_temperature > 0.0f) {
          const float u = uniform(seed, static_cast<std::uint64_t>(r * shape.columns + at + j)) + 0x1p-26f;
          score = score * inverse_temperature - __logf(-__logf(u));
        }
        if (score > best) {
          best = score;
          where = at + j;
        }
      }
    });
    const float top = reduce_block<Max>(best, scratch);
    if (threadIdx.x == 0) winner = ~0ULL;
    __syncthreads();
    if (best == top) atomicMin(&winner, static_cast<unsigned long long>(where));
    __syncthreads();
    if (threadIdx.x == 0) token[r] = static_cast<std::int64_t>(winner);
    __syncthreads();
  }
}

template <class T, class Launch>
Status with_width(std::int64_t columns, bool aligned, Launch launch) {
  constexpr int kWidth = 16 / sizeof(T);
  return aligned && columns % kWidth == 0 ? launch(std::integral_constant<int, kWidth>{})
                                          : launch(std::integral_constant<int, 1>{});
}

template <class Kernel, class... Arguments>
Status launch_clustered(Kernel kernel, const Rows& shape, int row_bytes_per_element, cudaStream_t stream,
                        Arguments... arguments) {
  int cluster = 1;
  while (cluster < kMaxCluster && shape.columns * row_bytes_per_element > kPartBytes * cluster) cluster *= 2;
  // Parts are whole packs, and two operands are kept apart by up to a pack each.
  const std::int64_t shared = (shape.columns / cluster + 32) * row_bytes_per_element;
  if (shared > 220 * 1024)
    return fail("softmax: a row of " + std::to_string(shape.columns) + " elements is too long");
  HEADROOM_TRY(HEADROOM_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  static_cast<int>(shared))));
  const std::int64_t rows_at_once = static_cast<std::int64_t>(multiprocessors()) * 4 / cluster;
  cudaLaunchConfig_t config{};
  config.gridDim =
      static_cast<unsigned>(std::max<std::int64_t>(1, std::min(shape.rows, rows_at_once))) * cluster;
  config.blockDim = kThreads;
  config.dynamicSmemBytes = static_cast<std::size_t>(shared);
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return HEADROOM_CUDA(cudaLaunchKernelEx(&config, kernel, arguments...));
}

bool empty(const Rows& shape) {
  return shape.rows <= 0 || shape.columns <= 0;
}

}  // namespace

Status softmax(const Rows& shape, bool log, const void* x, void* y, cudaStream_t stream) {
  if (empty(shape)) return {};
  return with_float_type(shape.dtype, [&]<class T>(TypeTag<T>) {
    return with_width<T>(shape.columns, aligned16(x, y), [&]<int W>(std::integral_constant<int, W>) {
      auto kernel = log ? softmax_kernel<T, W, true> : softmax_kernel<T, W, false>;
      return launch_clustered(kernel, shape, sizeof(T), stream, shape, static_cast<const T*>(x),
                              static_cast<T*>(y));
    });
  });
}

Status softmax_backward(const Rows& shape, bool log, const void* y, const void* d_y, void* d_x,
                        cudaStream_t stream) {
  if (empty(shape)) return {};
  return with_float_type(shape.dtype, [&]<class T>(TypeTag<T>) {
    return with_width<T>(shape.columns, aligned16(y, d_y, d_x), [&]<int W>(std::integral_constant<int, W>) {
      auto kernel = log ? softmax_backward_kernel<T, W, true> : softmax_backward_kernel<T, W, false>;
      return launch_clustered(kernel, shape, 2 * sizeof(T), stream, shape, static_cast<const T*>(y),
                              static_cast<const T*>(d_y), static_cast<T*>(d_x));
    });
  });
}

Status cross_entropy(const Rows& shape, const void* x, const std::int64_t* target, float* loss,
                     float* logsumexp, cudaStream_t stream) {
  if (empty(shape)) return {};
  return with_float_type(shape.dtype, [&]<class T>(TypeTag<T>) {
    return with_width<T>(shape.columns, aligned16(x), [&]<int W>(std::integral_constant<int, W>) {
      cross_entropy_kernel<T, W><<<grid_for(shape.rows, 1, 16), kThreads, 0, stream>>>(
          shape, static_cast<const T*>(x), target, loss, logsumexp);
      return HEADROOM_LAUNCHED();
    });
  });
}

Status cross_entropy_backward(const Rows& shape, const void* x, const std::int64_t* target,
                              const float* logsumexp, const float* d_loss, void* d_x, cudaStream_t stream) {
  if (empty(shape)) return {};
  return with_float_type(shape.dtype, [&]<class T>(TypeTag<T>) {
    return with_width<T>(shape.columns, aligned16(x, d_x), [&]<int W>(std::integral_constant<int, W>) {
      cross_entropy_backward_kernel<T, W><<<grid_for(shape.rows, 1, 16), kThreads, 0, stream>>>(
          shape, static_cast<const T*>(x), target, logsumexp, d_loss, static_cast<T*>(d_x));
      return HEADROOM_LAUNCHED();
    });
  });
}

Status entropy(const Rows& shape, const void* x, float* out, cudaStream_t stream) {
  if (empty(shape)) return {};
  return with_float_type(shape.dtype, [&]<class T>(TypeTag<T>) {
    return with_width<T>(shape.columns, aligned16(x), [&]<int W>(std::integral_constant<int, W>) {
      entropy_kernel<T, W>
          <<<grid_for(shape.rows, 1, 16), kThreads, 0, stream>>>(shape, static_cast<const T*>(x), out);
      return HEADROOM_LAUNCHED();
    });
  });
}

Status sample(const Rows& shape, const void* x, float temperature, std::uint64_t seed, std::int64_t* token,
              cudaStream_t stream) {
  if (empty(shape)) return {};
  return with_float_type(shape.dtype, [&]<class T>(TypeTag<T>) {
    return with_width<T>(shape.columns, aligned16(x), [&]<int W>(std::integral_constant<int, W>) {
      sample_kernel<T, W><<<grid_for(shape.rows, 1, 16), kThreads, 0, stream>>>(
          shape, static_cast<const T*>(x), temperature > 0.0f ? 1.0f / temperature : 0.0f, seed, token);
      return HEADROOM_LAUNCHED();
    });
  });
}

}  // namespace headroom::gpu
