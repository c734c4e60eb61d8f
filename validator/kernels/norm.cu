#include "validator/cuda/check.h"
#include "validator/kernels/launch.h"
#include "validator/kernels/norm.h"
#include "validator/kernels/numeric.cuh"

namespace headroom::gpu {
namespace {

// A row lives in the registers of one block: kThreads threads with up to kPacks packs each, so that it is
// read once.
constexpr int kThreads = 256;
constexpr int kMaxPacks = 8;
// Partial sums over rows, one set a block; few enough that adding them up is cheap.
constexpr int kPartialBlocks = 264;

template <class T, int Width, int Packs>
struct RowInRegisters {
  float v[Packs][Width];

  __device__ void load(const T* row, std::int64_t columns, float outside) {
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
      const std::int64_t at = (static_cast<std::int64_t>(p) * kThreads + threadIdx.x) * Width;
      if (at < columns) {
        const auto pack = load_pack<T, Width>(row + at);
#pragma unroll
        for (int j = 0; j < Width; ++j) v[p][j] = to_float(pack.v[j]);
      } else {
#pragma unroll
        for (int j = 0; j < Width; ++j) v[p][j] = outside;
      }
    }
  }
  __device__ void store(T* row, std::int64_t columns) const {
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
      const std::int64_t at = (static_cast<std::int64_t>(p) * kThreads + threadIdx.x) * Width;
      if (at >= columns) continue;
      Pack<T, Width> pack;
#pragma unroll
      for (int j = 0; j < Width; ++j) pack.v[j] = from_float<T>(v[p][j]);
      store_pack<T, Width>(row + at, pack);
    }
  }
  __device__ bool inside(int p, std::int64_t columns) const {
    return (static_cast<std::int64_t>(p) * kThreads + threadIdx.x) * Width < columns;
  }
};

template <class T, int Width, int Packs, NormKind kind>
__global__ void __launch_bounds__(kThreads) forward_kernel(NormForward a) {
  __shared__ float scratch[32];
  RowInRegisters<T, Width, Packs> weight, bias;
  weight.load(static_cast<const T*>(a.weight), a.columns, 0.0f);
  if (a.bias != nullptr) bias.load(static_cast<const T*>(a.bias), a.columns, 0.0f);
  const float inverse = 1.0f / static_cast<float>(a.columns);
  for (std::int64_t r = blockIdx.x; r < a.rows; r += gridDim.x) {
    RowInRegisters<T, Width, Packs> x;
    x.load(static_cast<const T*>(a.x) + r * a.columns, a.columns, 0.0f);
    float mean = 0.0f;
    if constexpr (kind == NormKind::layer) {
      float sum = 0.0f;
#pragma unroll
      for (int p = 0; p < Packs; ++p)
#pragma unroll
        for (int j = 0; j < Width; ++j) sum += x.v[p][j];
      mean = reduce_block<Sum>(sum, scratch) * inverse;
    }
    float squares = 0.0f;
#pragma unroll
    for (int p = 0; p < Packs; ++p)
#pragma unroll
      for (int j = 0; j < Width; ++j) {
        const float d = x.inside(p, a.columns) ? x.v[p][j] - mean : 0.0f;
        squares += d * d;
      }
    const float rstd = rsqrtf(reduce_block<Sum>(squares, scratch) * inverse + a.epsilon);
#pragma unroll
    for (int p = 0; p < Packs; ++p)
#pragma unroll
      for (int j = 0; j < Width; ++j) {
        x.v[p][j] = (x.v[p][j] - mean) * rstd * weight.v[p][j] + (a.bias != nullptr ? bias.v[p][j] : 0.0f);
      }
    x.store(static_cast<T*>(a.y) + r * a.columns, a.columns);
    if (threadIdx.x == 0) {
      if (a.rstd != nullptr) a.rstd[r] = rstd;
      if (a.mean != nullptr) a.mean[r] = mean;
    }
  }
}

// dx = rstd * (w dy - mean(w dy) - xhat * mean(w dy * xhat)); RMS norm leaves out the first mean. The sums
// over rows for d_weight and d_bias stay in registers until the block has done all its rows.
template <class T, int Width, int Packs, NormKind kind>
__global__ void __launch_bounds__(kThreads) backward_kernel(NormBackward a) {
  __shared__ float scratch[32];
  RowInRegisters<T, Width, Packs> weight;
  weight.load(static_cast<const T*>(a.weight), a.columns, 0.0f);
  float d_weight[Packs][Width] = {}, d_bias[Packs][Width] = {};
  const float inverse = 1.0f / static_cast<float>(a.columns);
  for (std::int64_t r = blockIdx.x; r < a.rows; r += gridDim.x) {
    RowInRegisters<T, Width, Packs> x, d;
    x.load(static_cast<const T*>(a.x) + r * a.columns, a.columns, 0.0f);
    d.load(static_cast<const T*>(a.d_y) + r * a.columns, a.columns, 0.0f);
    const float rstd = a.rstd[r];
    const float mean = kind == NormKind::layer ? a.mean[r] : 0.0f;
    float sum = 0.0f, dot = 0.0f;
#pragma unroll
    for (int p = 0; p < Packs; ++p)
#pragma unroll
      for (int j = 0; j < Width; ++j) {
        x.v[p][j] = (x.v[p][j] - mean) * rstd;
        d_weight[p][j] += d.v[p][j] * x.v[p][j];
        if constexpr (kind == NormKind::layer) d_bias[p][j] += d.v[p][j];
        d.v[p][j] *= weight.v[p][j];
        sum += d.v[p][j];
        dot += d.v[p][j] * x.v[p][j];
      }
    dot = reduce_block<Sum>(dot, scratch) * inverse;
    sum = kind == NormKind::layer ? reduce_block<Sum>(sum, scratch) * inverse : 0.0f;
#pragma unroll
    for (int p = 0; p < Packs; ++p)
#pragma unroll
      for (int j = 0; j < Width; ++j) d.v[p][j] = rstd * (d.v[p][j] - sum - x.v[p][j] * dot);
    d.store(static_cast<T*>(a.d_x) + r * a.columns, a.columns);
  }
  auto* partial = static_cast<float*>(a.workspace);
#pragma unroll
  for (int p = 0; p < Packs; ++p)
#pragma unroll
    for (int j = 0; j < Width; ++j) {
      const std::int64_t c = (static_cast<std::int64_t>(p) * kThreads + threadIdx.x) * Width + j;
      if (c >= a.columns) continue;
      partial[blockIdx.x * a.columns + c] = d_weight[p][j];
      if constexpr (kind == NormKind::layer) {
        partial[(static_cast<std::int64_t>(kPartialBlocks) + blockIdx.x) * a.columns + c] = d_bias[p][j];
      }
    }
}

template <class T>
__global__ void add_partials_kernel(const float* partial, int blocks, std::int64_t columns, T* out) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x;
  __shared__ float sums[8][33];
  float sum = 0.0f;
  if (c < columns) {
    for (int b = threadIdx.y; b < blocks; b += 8) sum += partial[b * columns + c];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && c < columns) {
    for (int y = 1; y < 8; ++y) sum += sums[y][threadIdx.x];
    out[c] = from_float<T>(sum);
  }
}

template <class T, class Launch>
Status with_row_shape(std::int64_t columns, bool aligned, Launch launch) {
  constexpr int kWidth = 16 / sizeof(T);
  const auto fits = [&](int width, int packs) {
    return columns <= static_cast<std::int64_t>(kThreads) * width * packs;
  };
  if (aligned && columns % kWidth == 0) {
    if (fits(kWidth, 1))
      return launch(std::integral_constant<int, kWidth>{}, std::integral_constant<int, 1>{});
    if (fits(kWidth, 2))
      return launch(std::integral_constant<int, kWidth>{}, std::integral_constant<int, 2>{});
    if (fits(kWidth, 4))
      return launch(std::integral_constant<int, kWidth>{}, std::integral_constant<int, 4>{});
    if (fits(kWidth, kMaxPacks))
      return launch(std::integral_constant<int, kWidth>{}, std::integral_constant<int, kMaxPacks>{});
  } else if (fits(1, 32)) {
    return launch(std::integral_constant<int, 1>{}, std::integral_constant<int, 32>{});
  }
  return fail("norm: a row of " + std::to_string(columns) + " elements does not fit one block's registers");
}

template <class T, NormKind kind>
Status forward(const NormForward& a, cudaStream_t stream) {
  const bool aligned = aligned16(a.x, a.weight, a.bias, a.y);
  return with_row_shape<T>(
      a.columns, aligned,
      [&]<int Width, int Packs>(std::integral_constant<int, Width>, std::integral_constant<int, Packs>) {
        forward_kernel<T, Width, Packs, kind><<<grid_for(a.rows, 1, 8), kThreads, 0, stream>>>(a);
        return HEADROOM_LAUNCHED();
      });
}

template <class T, NormKind kind>
Status backward(const NormBackward& a, cudaStream_t stream) {
  const bool aligned = aligned16(a.x, a.weight, a.d_y, a.d_x);
  const int blocks = static_cast<int>(std::min<std::int64_t>(a.rows, kPartialBlocks));
  HEADROOM_TRY(with_row_shape<T>(
      a.columns, aligned,
      [&]<int Width, int Packs>(std::integral_constant<int, Width>, std::integral_constant<int, Packs>) {
        backward_kernel<T, Width, Packs, kind><<<blocks, kThreads, 0, stream>>>(a);
        return HEADROOM_LAUNCHED();
      }));
  const auto* partial = static_cast<const float*>(a.workspace);
  const auto grid = static_cast<unsigned>((a.columns + 31) / 32);
  if (a.d_weight != nullptr) {
    add_partials_kernel<<<grid, dim3(32, 8), 0, stream>>>(partial, blocks, a.columns,
                                                          static_cast<T*>(a.d_weight));
    HEADROOM_TRY(HEADROOM_LAUNCHED());
  }
  if (kind == NormKind::layer && a.d_bias != nullptr) {
    add_partials_kernel<<<grid, dim3(32, 8), 0, stream>>>(partial + kPartialBlocks * a.columns, blocks,
                                                          a.columns, static_cast<T*>(a.d_bias));
    HEADROOM_TRY(HEADROOM_LAUNCHED());
  }
  return {};
}

}  // namespace

Status norm_forward(const NormForward& a, cudaStream_t stream) {
  if (a.rows <= 0 || a.columns <= 0) return {};
  return with_float_type(a.dtype, [&]<class T>(TypeTag<T>) {
    return a.kind == NormKind::rms ? forward<T, NormKind::rms>(a, stream)
                                   : forward<T, NormKind::layer>(a, stream);
  });
}

Status norm_backward(const NormBackward& a, cudaStream_t stream) {
  if (a.rows <= 0 || a.columns <= 0) return {};
  return with_float_type(a.dtype, [&]<class T>(TypeTag<T>) {
    return a.kind == NormKind::rms ? backward<T, NormKind::rms>(a, stream)
                                   : backward<T, NormKind::layer>(a, stream);
  });
}

Bytes norm_backward_workspace(NormKind kind, std::int64_t columns) {
  return static_cast<Bytes>(sizeof(float)) * kPartialBlocks * columns * (kind == NormKind::layer ? 2 : 1);
}

}  // namespace headroom::gpu
