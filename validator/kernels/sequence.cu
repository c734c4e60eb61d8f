#include "validator/cuda/check.h"
#include "validator/kernels/launch.h"
#include "validator/kernels/numeric.cuh"
#include "validator/kernels/sequence.h"

namespace headroom::gpu {
namespace {

constexpr int kThreads = 256;

__device__ inline std::int64_t first_item() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t item_stride() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

template <class T, int Width>
__global__ void gather_rows_kernel(const T* table, std::int64_t table_rows, const std::int64_t* index,
                                   std::int64_t count, std::int64_t packs, T* out) {
  for (std::int64_t i = first_item(); i < count * packs; i += item_stride()) {
    const std::int64_t row = index[i / packs], at = i % packs * Width;
    Pack<T, Width> x{};
    if (row >= 0 && row < table_rows) x = load_pack<T, Width>(table + row * packs * Width + at);
    store_pack<T, Width>(out + i * Width, x);
  }
}

__device__ inline void add_pair(float* to, float a, float b) {
  atomicAdd(to, a);
  atomicAdd(to + 1, b);
}
__device__ inline void add_pair(fp16* to, float a, float b) {
  atomicAdd(reinterpret_cast<__half2*>(to), __floats2half2_rn(a, b));
}
__device__ inline void add_pair(bf16* to, float a, float b) {
  atomicAdd(reinterpret_cast<__nv_bfloat162*>(to), __floats2bfloat162_rn(a, b));
}

template <class T>
__global__ void scatter_add_rows_kernel(const T* d_out, const std::int64_t* index, std::int64_t count,
                                        std::int64_t pairs, T* d_table, std::int64_t table_rows) {
  for (std::int64_t i = first_item(); i < count * pairs; i += item_stride()) {
    const std::int64_t row = index[i / pairs], at = i % pairs * 2;
    if (row < 0 || row >= table_rows) continue;
    const auto d = load_pack<T, 2>(d_out + i * 2);
    add_pair(d_table + row * pairs * 2 + at, to_float(d.v[0]), to_float(d.v[1]));
  }
}

template <class T>
__global__ void gather_elements_kernel(const T* x, const std::int64_t* index, std::int64_t rows,
                                       std::int64_t columns, T* out) {
  for (std::int64_t r = first_item(); r < rows; r += item_stride()) {
    const std::int64_t c = index[r];
    out[r] = c >= 0 && c < columns ? x[r * columns + c] : from_float<T>(0.0f);
  }
}

// One thread turns Width pairs of one head.
template <class T, int Width>
__global__ void rotary_kernel(Rotary a) {
  const std::int64_t half = a.head_dim / 2, packs = half / Width, items = a.tokens * a.heads * packs;
  const float step = -2.0f * log2f(a.base) / static_cast<float>(a.head_dim);
  for (std::int64_t i = first_item(); i < items; i += item_stride()) {
    const std::int64_t pack = i % packs, row = i / packs, token = row / a.heads;
    const std::int64_t position = a.position != nullptr ? a.position[token] : token % a.length;
    const T* from = static_cast<const T*>(a.x) + row * a.head_dim + pack * Width;
    T* to = static_cast<T*>(a.y) + row * a.head_dim + pack * Width;
    auto low = load_pack<T, Width>(from);
    auto high = load_pack<T, Width>(from + half);
#pragma unroll
    for (int j = 0; j < Width; ++j) {
      const float angle = static_cast<float>(position) * exp2f(step * static_cast<float>(pack * Width + j));
      float sine, cosine;
      sincosf(angle, &sine, &cosine);
      if (a.inverse) sine = -sine;
      const float x = to_float(low.v[j]), y = to_float(high.v[j]);
      low.v[j] = from_float<T>(x * cosine - y * sine);
      high.v[j] = from_float<T>(y * cosine + x * sine);
    }
    store_pack<T, Width>(to, low);
    store_pack<T, Width>(to + half, high);
  }
}

}  // namespace

Status gather_rows(const void* table, std::int64_t table_rows, const std::int64_t* index, std::int64_t count,
                   std::int64_t columns, DType dtype, void* out, cudaStream_t stream) {
  if (count <= 0 || columns <= 0) return {};
  return with_float_type(dtype, [&]<class T>(TypeTag<T>) {
    const auto launch = [&]<int W>(std::integral_constant<int, W>) {
      gather_rows_kernel<T, W><<<grid_for(count * columns / W, kThreads, 16), kThreads, 0, stream>>>(
          static_cast<const T*>(table), table_rows, index, count, columns / W, static_cast<T*>(out));
      return HEADROOM_LAUNCHED();
    };
    constexpr int kWidth = 16 / sizeof(T);
    return columns % kWidth == 0 && aligned16(table, out) ? launch(std::integral_constant<int, kWidth>{})
                                                          : launch(std::integral_constant<int, 1>{});
  });
}

Status scatter_add_rows(const void* d_out, const std::int64_t* index, std::int64_t count,
                        std::int64_t columns, DType dtype, void* d_table, std::int64_t table_rows,
                        cudaStream_t stream) {
  if (count <= 0 || columns <= 0) return {};
  if (columns % 2 != 0) return fail("scatter_add_rows: expected an even number of columns");
  return with_float_type(dtype, [&]<class T>(TypeTag<T>) {
    scatter_add_rows_kernel<T><<<grid_for(count * columns / 2, kThreads, 16), kThreads, 0, stream>>>(
        static_cast<const T*>(d_out), index, count, columns / 2, static_cast<T*>(d_table), table_rows);
    return HEADROOM_LAUNCHED();
  });
}

Status gather_elements(const void* x, const std::int64_t* index, std::int64_t rows, std::int64_t columns,
                       DType dtype, void* out, cudaStream_t stream) {
  if (rows <= 0) return {};
  return with_float_type(dtype, [&]<class T>(TypeTag<T>) {
    gather_elements_kernel<T><<<grid_for(rows, kThreads, 16), kThreads, 0, stream>>>(
        static_cast<const T*>(x), index, rows, columns, static_cast<T*>(out));
    return HEADROOM_LAUNCHED();
  });
}

Status rotary(const Rotary& a, cudaStream_t stream) {
  if (a.tokens <= 0 || a.heads <= 0) return {};
  if (a.head_dim <= 0 || a.head_dim % 2 != 0) return fail("rotary: expected an even head_dim");
  return with_float_type(a.dtype, [&]<class T>(TypeTag<T>) {
    const auto launch = [&]<int W>(std::integral_constant<int, W>) {
      const std::int64_t items = a.tokens * a.heads * (a.head_dim / 2) / W;
      rotary_kernel<T, W><<<grid_for(items, kThreads, 16), kThreads, 0, stream>>>(a);
      return HEADROOM_LAUNCHED();
    };
    constexpr int kWidth = 16 / sizeof(T);
    return a.head_dim / 2 % kWidth == 0 && aligned16(a.x, a.y) ? launch(std::integral_constant<int, kWidth>{})
                                                               : launch(std::integral_constant<int, 1>{});
  });
}

}  // namespace headroom::gpu
