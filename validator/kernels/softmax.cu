#include <cooperative_groups.h>
#include <cuda_pipeline.h>

#include "validator/cuda/check.h"
#include "validator/kernels/launch.h"
#include "validator/kernels/numeric.cuh"
#include "validator/kernels/softmax.h"

namespace headroom::gpu {
namespace {

namespace cg = cooperative_groups;

constexpr int kThreads = 512;
// A row is spread over the shared memory of a cluster of blocks and so is read from device memory once. While
// a row is worked on, the next one arrives: two parts a block.
constexpr int kMaxCluster = 8;  // and twice that for rows that fit no other way
constexpr std::int64_t kPartBytes = 52 * 1024, kBlockBytes = 220 * 1024;

/// exp(x - top) for a `base` of top * log2(e): one fused multiply-add and one exponential.
__device__ float exp_below(float x, float base) {
  return exp2_fast(fmaf(x, kLog2e, -base));
}

/// A running maximum with the sum of exponentials below it.
struct OnlineSum {
  float max = -INFINITY, sum = 0.0f;

  /// Takes a pack in: its own maximum first, so that the sum is rescaled once. Returns by how much, and calls
  /// `each(v, exp(v - max))`.
  template <class T, int Width, class Each>
  __device__ float add(const Pack<T, Width>& pack, Each each) {
    float v[Width], top = max;
#pragma unroll
    for (int j = 0; j < Width; ++j) {
      v[j] = to_float(pack.v[j]);
      top = fmaxf(top, v[j]);
    }
    const float base = top == -INFINITY ? 0.0f : top * kLog2e;
    const float shrink = exp_below(max, base);
    max = top;
    float added = 0.0f;
#pragma unroll
    for (int j = 0; j < Width; ++j) {
      const float e = exp_below(v[j], base);
      added += e;
      each(v[j], e);
    }
    sum = fmaf(sum, shrink, added);
    return shrink;
  }
  template <class T, int Width>
  __device__ void add(const Pack<T, Width>& pack) {
    add<T, Width>(pack, [](float, float) {});
  }
  __device__ void join(float other_max, float other_sum) {
    const float top = fmaxf(max, other_max), base = top == -INFINITY ? 0.0f : top * kLog2e;
    sum = sum * exp_below(max, base) + other_sum * exp_below(other_max, base);
    max = top;
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
__device__ float sum_cluster(float x, float* scratch, float* slot) {
  cg::cluster_group cluster = cg::this_cluster();
  x = reduce_block<Sum>(x, scratch);
  if (cluster.num_blocks() == 1) return x;
  if (threadIdx.x == 0) *slot = x;
  cluster.sync();
  float all = 0.0f;
  for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank) all += *cluster.map_shared_rank(slot, rank);
  cluster.sync();
  return all;
}

/// The same for a maximum and its sum: one exchange for both.
__device__ OnlineSum join_cluster(OnlineSum own, float* scratch, float2* slot) {
  cg::cluster_group cluster = cg::this_cluster();
  const float top = reduce_block<Max>(own.max, scratch);
  const float base = top == -INFINITY ? 0.0f : top * kLog2e;
  OnlineSum all;
  all.max = top;
  all.sum = reduce_block<Sum>(own.sum * exp_below(own.max, base), scratch);
  if (cluster.num_blocks() == 1) return all;
  if (threadIdx.x == 0) *slot = make_float2(all.max, all.sum);
  cluster.sync();
  OnlineSum joined;
  for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank) {
    const float2 part = *cluster.map_shared_rank(slot, rank);
    joined.join(part.x, part.y);
  }
  cluster.sync();
  return joined;
}

/// Where a block's part of a row begins and how long it is; parts are whole packs, `each` is the longest.
template <int Width>
struct Part {
  std::int64_t begin, count, each;
  __device__ explicit Part(std::int64_t columns) {
    cg::cluster_group cluster = cg::this_cluster();
    const std::int64_t packs = columns / Width;
    const std::int64_t most = (packs + cluster.num_blocks() - 1) / cluster.num_blocks();
    begin = min(static_cast<std::int64_t>(cluster.block_rank()) * most, packs) * Width;
    each = most * Width;
    count = min(each, columns - begin);
  }
};

extern __shared__ __align__(16) unsigned char part_memory[];

/// Asks for a part of a row in shared memory; each thread gets the packs that `for_row` gives it, so that it
/// needs to wait for its own requests alone.
template <class T, int Width>
__device__ void fetch_part(const T* row, std::int64_t count, T* kept) {
  for (std::int64_t p = threadIdx.x; p < count / Width; p += blockDim.x) {
    if constexpr (Width * sizeof(T) == 16)
      __pipeline_memcpy_async(kept + p * Width, row + p * Width, 16);
    else
      store_pack<T, Width>(kept + p * Width, load_pack<T, Width>(row + p * Width));
  }
}

/// `body(r, kept)` for each row of this cluster, its part in shared memory, while the next row arrives.
template <class T, int Width, class Body>
__device__ void for_fetched_rows(const Rows& shape, const Part<Width>& part, const T* x, Body body) {
  T* stages = reinterpret_cast<T*>(part_memory);
  const std::int64_t stage = (part.each + 15) / 16 * 16;
  const std::int64_t step = gridDim.x / cg::this_cluster().num_blocks();
  std::int64_t r = blockIdx.x / cg::this_cluster().num_blocks();
  if (r < shape.rows) fetch_part<T, Width>(x + r * shape.columns + part.begin, part.count, stages);
  __pipeline_commit();
  for (int at = 0; r < shape.rows; r += step, at ^= 1) {
    if (r + step < shape.rows)
      fetch_part<T, Width>(x + (r + step) * shape.columns + part.begin, part.count,
                           stages + (at ^ 1) * stage);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    body(r, stages + at * stage);
  }
}

template <class T, int Width, bool log>
__global__ void __launch_bounds__(kThreads) softmax_kernel(Rows shape, const T* x, T* y) {
  __shared__ float scratch[32];
  __shared__ float2 slot;
  const Part<Width> part(shape.columns);
  for_fetched_rows<T, Width>(shape, part, x, [&](std::int64_t r, const T* kept) {
    OnlineSum online;
    for_row<T, Width>(kept, part.count, [&](std::int64_t, const Pack<T, Width>& pack) { online.add(pack); });
    online = join_cluster(online, scratch, &slot);
    const float inverse = 1.0f / online.sum, log_sum = online.max + __logf(online.sum);
    const float base = online.max * kLog2e;
    T* out = y + r * shape.columns + part.begin;
    for_row<T, Width>(kept, part.count, [&](std::int64_t at, Pack<T, Width> pack) {
#pragma unroll
      for (int j = 0; j < Width; ++j) {
        const float v = to_float(pack.v[j]);
        pack.v[j] = from_float<T>(log ? v - log_sum : exp_below(v, base) * inverse);
      }
      store_pack<T, Width>(out + at, pack);
    });
  });
}

// The sum needs the gradient alone: the forward's row is read once, when it is needed.
template <class T, int Width>
__global__ void __launch_bounds__(kThreads)
    log_softmax_backward_kernel(Rows shape, const T* y, const T* d_y, T* d_x) {
  __shared__ float scratch[32], slot;
  const Part<Width> part(shape.columns);
  for_fetched_rows<T, Width>(shape, part, d_y, [&](std::int64_t r, const T* kept) {
    float sum = 0.0f;
    for_row<T, Width>(kept, part.count, [&](std::int64_t, const Pack<T, Width>& d) {
#pragma unroll
      for (int j = 0; j < Width; ++j) sum += to_float(d.v[j]);
    });
    sum = sum_cluster(sum, scratch, &slot);
    const std::int64_t row = r * shape.columns + part.begin;
    for_row<T, Width>(y + row, part.count, [&](std::int64_t at, const Pack<T, Width>& forward) {
      auto d = load_pack<T, Width>(kept + at);
#pragma unroll
      for (int j = 0; j < Width; ++j)
        d.v[j] = from_float<T>(to_float(d.v[j]) - __expf(to_float(forward.v[j])) * sum);
      store_pack<T, Width>(d_x + row + at, d);
    });
  });
}

template <class T, int Width>
__global__ void __launch_bounds__(kThreads)
    softmax_backward_kernel(Rows shape, const T* y, const T* d_y, T* d_x) {
  __shared__ float scratch[32], slot;
  const Part<Width> part(shape.columns);
  T* kept = reinterpret_cast<T*>(part_memory);
  T* kept_y = kept + (part.each + 15) / 16 * 16;
  const unsigned cluster_size = cg::this_cluster().num_blocks();
  for (std::int64_t r = blockIdx.x / cluster_size; r < shape.rows; r += gridDim.x / cluster_size) {
    const std::int64_t row = r * shape.columns + part.begin;
    float sum = 0.0f;
    for_row<T, Width>(d_y + row, part.count, [&](std::int64_t at, const Pack<T, Width>& d) {
      const auto forward = load_pack<T, Width>(y + row + at);
      store_pack<T, Width>(kept + at, d);
      store_pack<T, Width>(kept_y + at, forward);
#pragma unroll
      for (int j = 0; j < Width; ++j) sum += to_float(d.v[j]) * to_float(forward.v[j]);
    });
    sum = sum_cluster(sum, scratch, &slot);
    for_row<T, Width>(kept, part.count, [&](std::int64_t at, Pack<T, Width> d) {
      const auto forward = load_pack<T, Width>(kept_y + at);
#pragma unroll
      for (int j = 0; j < Width; ++j)
        d.v[j] = from_float<T>(to_float(forward.v[j]) * (to_float(d.v[j]) - sum));
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
    for_row<T, Width>(x + r * shape.columns, shape.columns,
                      [&](std::int64_t, const Pack<T, Width>& pack) { online.add(pack); });
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
      float added = 0.0f;
      const float shrink =
          online.add(pack, [&](float v, float e) { added = e > 0.0f ? fmaf(e, v, added) : added; });
      weighted = fmaf(weighted, shrink, added);
    });
    const float top = reduce_block<Max>(online.max, scratch);
    const float scale = online.max == -INFINITY ? 0.0f : __expf(online.max - top);
    const float sum = reduce_block<Sum>(online.sum * scale, scratch);
    weighted = reduce_block<Sum>(weighted * scale, scratch);
    if (threadIdx.x == 0) out[r] = top + __logf(sum) - weighted / sum;
  }
}

/// The thread's best score and where it was, over the block: the first of equal ones.
__device__ void store_winner(float best, std::int64_t where, float* scratch, std::int64_t* token) {
  __shared__ unsigned long long winner;
  const float top = reduce_block<Max>(best, scratch);
  if (threadIdx.x == 0) winner = ~0ULL;
  __syncthreads();
  if (best == top) atomicMin(&winner, static_cast<unsigned long long>(where));
  __syncthreads();
  if (threadIdx.x == 0) *token = static_cast<std::int64_t>(winner);
  __syncthreads();
}

template <class T, int Width>
__global__ void __launch_bounds__(kThreads) largest_kernel(Rows shape, const T* x, std::int64_t* token) {
  __shared__ float scratch[32];
  for (std::int64_t r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    float best = -INFINITY;
    std::int64_t where = 0;
    for_row<T, Width>(x + r * shape.columns, shape.columns, [&](std::int64_t at, const Pack<T, Width>& pack) {
#pragma unroll
      for (int j = 0; j < Width; ++j) {
        const float score = to_float(pack.v[j]);
        if (score > best) {
          best = score;
          where = at + j;
        }
      }
    });
    store_winner(best, where, scratch, token + r);
  }
}

// The largest of x / temperature - log(E), E exponential, is a draw from the softmax. E = -log(1 - u) of a
// uniform u is at least u, so an element whose u is too large to win needs no logarithm; few do. Scores are
// kept in powers of two.
template <class T, int Width>
__global__ void __launch_bounds__(kThreads) sample_kernel(Rows shape, const T* x, float inverse_temperature,
                                                          std::uint64_t seed, std::int64_t* token) {
  __shared__ float scratch[32];
  const float scale = inverse_temperature * kLog2e;
  for (std::int64_t r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    const std::uint32_t key = row_key(seed, static_cast<std::uint64_t>(r));
    float best = -INFINITY;
    std::int64_t where = 0;
    for_row<T, Width>(x + r * shape.columns, shape.columns, [&](std::int64_t at, const Pack<T, Width>& pack) {
#pragma unroll
      for (int j = 0; j < Width; ++j) {
        const float v = to_float(pack.v[j]);
        const float u = uniform_inside(key + static_cast<std::uint32_t>(at) + j);
        if (u > exp2_fast(fmaf(v, scale, -best))) continue;
        const float noisy = fmaf(v, scale, -__log2f(-__logf(1.0f - u)));
        if (noisy > best) {
          best = noisy;
          where = at + j;
        }
      }
    });
    store_winner(best, where, scratch, token + r);
  }
}

template <class T, class Launch>
Status with_width(std::int64_t columns, bool aligned, Launch launch) {
  constexpr int kWidth = 16 / sizeof(T);
  return aligned && columns % kWidth == 0 ? launch(std::integral_constant<int, kWidth>{})
                                          : launch(std::integral_constant<int, 1>{});
}

/// Launches with two parts of a row in each block's shared memory.
template <class Kernel, class... Arguments>
Status launch_clustered(Kernel kernel, const Rows& shape, int element_bytes, cudaStream_t stream,
                        Arguments... arguments) {
  int cluster = 1;
  while (cluster < kMaxCluster && shape.columns * element_bytes > kPartBytes * cluster) cluster *= 2;
  // Parts are whole packs and begin at 16 bytes.
  const auto shared_bytes = [&] { return (shape.columns / cluster + 32) * element_bytes * 2; };
  if (shared_bytes() > kBlockBytes) cluster *= 2;
  const std::int64_t shared = shared_bytes();
  if (shared > kBlockBytes)
    return fail("softmax: a row of " + std::to_string(shape.columns) + " elements is too long");
  const auto* function = reinterpret_cast<const void*>(kernel);
  HEADROOM_TRY(HEADROOM_CUDA(
      cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared))));
  HEADROOM_TRY(
      HEADROOM_CUDA(cudaFuncSetAttribute(function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1)));
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(cluster);
  config.blockDim = kThreads;
  config.dynamicSmemBytes = static_cast<std::size_t>(shared);
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  // As many clusters as run at once: each goes from row to row.
  int clusters = 0;
  HEADROOM_TRY(HEADROOM_CUDA(cudaOccupancyMaxActiveClusters(&clusters, function, &config)));
  config.gridDim.x *=
      static_cast<unsigned>(std::clamp<std::int64_t>(clusters, 1, std::max<std::int64_t>(shape.rows, 1)));
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
      auto kernel = log ? log_softmax_backward_kernel<T, W> : softmax_backward_kernel<T, W>;
      return launch_clustered(kernel, shape, sizeof(T), stream, shape, static_cast<const T*>(y),
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
      const unsigned grid = grid_for(shape.rows, 1, 16);
      if (temperature > 0.0f)
        sample_kernel<T, W>
            <<<grid, kThreads, 0, stream>>>(shape, static_cast<const T*>(x), 1.0f / temperature, seed, token);
      else
        largest_kernel<T, W><<<grid, kThreads, 0, stream>>>(shape, static_cast<const T*>(x), token);
      return HEADROOM_LAUNCHED();
    });
  });
}

}  // namespace headroom::gpu
