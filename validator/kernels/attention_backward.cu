#include <algorithm>

#include "validator/kernels/attention.cuh"
#include "validator/kernels/launch.h"
#include "validator/kernels/mma.cuh"

namespace headroom::gpu {
namespace {

extern __shared__ __align__(128) unsigned char tiles[];

constexpr int kWarps = 4, kThreads = kWarps * 32;
constexpr int kStrip = kWarps * 16;  // rows a block owns: 16 a warp
constexpr int kStep = 64;            // rows of the other side a step

template <class T, int D>
using StepTile = Tile<T, kStep, D>;

// acc[16 x kStep] += own rows times the transposed step rows.
template <class T, int D, int OwnRows>
__device__ void multiply_rows(const Tile<T, OwnRows, D>& own, int row, const StepTile<T, D>& step,
                              float (&acc)[kStep / 8][4]) {
#pragma unroll
  for (int k = 0; k < D; k += 16) {
    const FragmentA a = own.a(row, k);
#pragma unroll
    for (int n = 0; n < kStep / 16; ++n) {
      const FragmentB2 b = step.b_rows(n * 16, k);
      multiply_add<T>(acc[2 * n], a, b.r[0], b.r[1]);
      multiply_add<T>(acc[2 * n + 1], a, b.r[2], b.r[3]);
    }
  }
}

// acc[16 x D] += p[16 x kStep] times the step rows.
template <class T, int D>
__device__ void multiply_columns(const float (&p)[kStep / 8][4], const StepTile<T, D>& step,
                                 float (&acc)[D / 8][4]) {
#pragma unroll
  for (int k = 0; k < kStep; k += 16) {
    const FragmentA a = as_operand<T>(p[k / 8], p[k / 8 + 1]);
#pragma unroll
    for (int n = 0; n < D / 16; ++n) {
      const FragmentB2 b = step.b_columns(k, n * 16);
      multiply_add<T>(acc[2 * n], a, b.r[0], b.r[1]);
      multiply_add<T>(acc[2 * n + 1], a, b.r[2], b.r[3]);
    }
  }
}

template <class T, int D>
__device__ void store_strip(T* out, std::int64_t stride, int rows, int columns, float factor,
                            const float (&acc)[D / 8][4]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + half * 8;
    if (row >= rows) continue;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      const int column = n * 8 + lane % 4 * 2;
      if (column >= columns) continue;
      *reinterpret_cast<std::uint32_t*>(out + row * stride + column) =
          pack_pair(acc[n][2 * half] * factor, acc[n][2 * half + 1] * factor, T{});
    }
  }
}

// delta[h, i] = sum over head_dim of o * d_o: one warp a (token, head).
template <class T>
__global__ void delta_kernel(const Attention a, const AttentionGradient g) {
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (blockDim.x / 32);
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  for (std::int64_t i = first; i < a.query_tokens * a.heads; i += warps) {
    const std::int64_t token = i / a.heads, head = i % a.heads, at = token * a.o_stride + head * a.head_dim;
    float sum = 0.0f;
    for (std::int64_t d = lane; d < a.head_dim; d += 32) {
      sum += to_float(static_cast<const T*>(a.o)[at + d]) * to_float(static_cast<const T*>(g.d_o)[at + d]);
    }
    sum = reduce_warp<Sum>(sum);
    if (lane == 0) g.delta[head * a.query_tokens + token] = sum;
  }
}

/// Shared memory of the pass by keys: own keys and values, and two stages of queries, output gradients and
/// their log-sums and deltas.
template <class T, int D>
struct KeyPassMemory {
  static constexpr int kStage = 2 * StepTile<T, D>::kBytes + 2 * kStep * static_cast<int>(sizeof(float));
  static constexpr int kOwn = 2 * Tile<T, kStrip, D>::kBytes;
  static constexpr int kBytes = kOwn + 2 * kStage;
  __device__ static Tile<T, kStrip, D> keys() { return {reinterpret_cast<T*>(tiles)}; }
  __device__ static Tile<T, kStrip, D> values() { return {reinterpret_cast<T*>(tiles) + kStrip * D}; }
  __device__ static StepTile<T, D> queries(int s) {
    return {reinterpret_cast<T*>(tiles + kOwn + s * kStage)};
  }
  __device__ static StepTile<T, D> gradients(int s) { return {queries(s).base + kStep * D}; }
  __device__ static float* logsumexp(int s) {
    return reinterpret_cast<float*>(gradients(s).base + kStep * D);
  }
  __device__ static float* delta(int s) { return logsumexp(s) + kStep; }
};

// d_k and d_v of 64 keys of one key head. Scores are formed transposed (keys by queries), so that
// probabilities and their gradients are left operands straight from registers.
template <class T, int D>
__global__ void __launch_bounds__(kThreads) key_pass_kernel(const Attention a, const AttentionGradient g) {
  using Memory = KeyPassMemory<T, D>;
  const int key_head = blockIdx.y, group = static_cast<int>(a.heads / a.key_heads),
            first_head = key_head * group;
  const AttentionView<T> view(a, blockIdx.z, first_head, key_head);
  const int key = static_cast<int>(blockIdx.x) * kStrip;
  if (key >= view.keys) return;
  const int columns = static_cast<int>(a.head_dim), lane = threadIdx.x % 32,
            row = static_cast<int>(threadIdx.x / 32) * 16;

  const int first_query = max(0, key - view.offset) / kStep * kStep;  // earlier ones see none of these keys
  const int steps_each = max(0, (view.queries - first_query + kStep - 1) / kStep), steps = steps_each * group;
  const T* d_o = static_cast<const T*>(g.d_o) + view.first_query * a.o_stride;
  const auto fetch = [&](int step) {
    const int stage = step % 2, h = step / steps_each, query = first_query + step % steps_each * kStep;
    const int rows = view.queries - query;
    const std::int64_t head = first_head + h;
    Memory::queries(stage).template fill<kThreads>(view.q + query * a.q_stride + h * a.head_dim, a.q_stride,
                                                   rows, columns);
    Memory::gradients(stage).template fill<kThreads>(d_o + query * a.o_stride + head * a.head_dim, a.o_stride,
                                                     rows, columns);
    const int i = threadIdx.x % kStep;
    const float* from =
        (threadIdx.x < kStep ? a.logsumexp : g.delta) + head * a.query_tokens + view.first_query + query;
    float* to = threadIdx.x < kStep ? Memory::logsumexp(stage) : Memory::delta(stage);
    copy_async4(to + i, i < rows ? from + i : from, i < rows);
    commit_copies();
  };
  Memory::keys().template fill<kThreads>(view.k + key * a.k_stride, a.k_stride, view.keys - key, columns);
  Memory::values().template fill<kThreads>(view.v + key * a.v_stride, a.v_stride, view.keys - key, columns);
  if (steps > 0) fetch(0);
  commit_copies();

  float d_k[D / 8][4] = {}, d_v[D / 8][4] = {};
  const float scale_log2 = a.scale * kLog2e;
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps)
      fetch(step + 1);
    else
      commit_copies();
    wait_copies<1>();
    __syncthreads();
    const int stage = step % 2, query = first_query + step % steps_each * kStep;
    float p[kStep / 8][4] = {}, d_p[kStep / 8][4] = {};
    multiply_rows<T, D>(Memory::keys(), row, Memory::queries(stage), p);
    multiply_rows<T, D>(Memory::values(), row, Memory::gradients(stage), d_p);
#pragma unroll
    for (int n = 0; n < kStep / 8; ++n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int i = n * 8 + lane % 4 * 2 + j % 2;
        const bool seen = view.visible(query + i, key + row + lane / 4 + j / 2 * 8);
        p[n][j] = seen ? exp2f(p[n][j] * scale_log2 - Memory::logsumexp(stage)[i] * kLog2e) : 0.0f;
        d_p[n][j] = p[n][j] * (d_p[n][j] - Memory::delta(stage)[i]);
      }
    }
    multiply_columns<T, D>(p, Memory::gradients(stage), d_v);
    multiply_columns<T, D>(d_p, Memory::queries(stage), d_k);
    __syncthreads();
  }
  const int rows = view.keys - key - row;
  store_strip<T, D>(
      static_cast<T*>(g.d_k) + (view.first_key + key + row) * a.k_stride + key_head * a.head_dim, a.k_stride,
      rows, columns, a.scale, d_k);
  store_strip<T, D>(
      static_cast<T*>(g.d_v) + (view.first_key + key + row) * a.v_stride + key_head * a.head_dim, a.v_stride,
      rows, columns, 1.0f, d_v);
}

// d_q of 64 queries of one head.
template <class T, int D>
__global__ void __launch_bounds__(kThreads) query_pass_kernel(const Attention a, const AttentionGradient g) {
  const int head = blockIdx.y, key_head = head / static_cast<int>(a.heads / a.key_heads);
  const AttentionView<T> view(a, blockIdx.z, head, key_head);
  const int query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kStrip;
  if (query >= view.queries) return;
  const int columns = static_cast<int>(a.head_dim), lane = threadIdx.x % 32,
            row = static_cast<int>(threadIdx.x / 32) * 16;
  const Tile<T, kStrip, D> q{reinterpret_cast<T*>(tiles)}, d_o{q.base + kStrip * D};
  const auto keys = [&](int stage) { return StepTile<T, D>{d_o.base + (kStrip + stage * 2 * kStep) * D}; };
  const auto values = [&](int stage) {
    return StepTile<T, D>{d_o.base + (kStrip + (stage * 2 + 1) * kStep) * D};
  };
  const auto fetch = [&](int step) {
    const int key = step * kStep;
    keys(step % 2).template fill<kThreads>(view.k + key * a.k_stride, a.k_stride, view.keys - key, columns);
    values(step % 2).template fill<kThreads>(view.v + key * a.v_stride, a.v_stride, view.keys - key, columns);
    commit_copies();
  };
  const int last_key = min(view.keys, query + kStrip + view.offset),
            steps = max(0, (last_key + kStep - 1) / kStep);
  const T* gradient =
      static_cast<const T*>(g.d_o) + (view.first_query + query) * a.o_stride + head * a.head_dim;
  q.template fill<kThreads>(view.q + query * a.q_stride, a.q_stride, view.queries - query, columns);
  d_o.template fill<kThreads>(gradient, a.o_stride, view.queries - query, columns);
  if (steps > 0) fetch(0);
  commit_copies();

  float logsumexp[2], delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = query + row + lane / 4 + half * 8;
    const std::int64_t at = head * a.query_tokens + view.first_query + i;
    logsumexp[half] = i < view.queries ? a.logsumexp[at] * kLog2e : INFINITY;
    delta[half] = i < view.queries ? g.delta[at] : 0.0f;
  }
  float d_q[D / 8][4] = {};
  const float scale_log2 = a.scale * kLog2e;
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps)
      fetch(step + 1);
    else
      commit_copies();
    wait_copies<1>();
    __syncthreads();
    const int stage = step % 2;
    float s[kStep / 8][4] = {}, d_p[kStep / 8][4] = {};
    multiply_rows<T, D>(q, row, keys(stage), s);
    multiply_rows<T, D>(d_o, row, values(stage), d_p);
#pragma unroll
    for (int n = 0; n < kStep / 8; ++n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int half = j / 2;
        const bool seen =
            view.visible(query + row + lane / 4 + half * 8, step * kStep + n * 8 + lane % 4 * 2 + j % 2);
        const float p = seen ? exp2f(s[n][j] * scale_log2 - logsumexp[half]) : 0.0f;
        s[n][j] = p * (d_p[n][j] - delta[half]);
      }
    }
    multiply_columns<T, D>(s, keys(stage), d_q);
    __syncthreads();
  }
  store_strip<T, D>(
      static_cast<T*>(g.d_q) + (view.first_query + query + row) * a.q_stride + head * a.head_dim, a.q_stride,
      view.queries - query - row, columns, a.scale, d_q);
}

template <class T, int D>
Status launch(const Attention& a, const AttentionGradient& g, cudaStream_t stream) {
  delta_kernel<T><<<grid_for(a.query_tokens * a.heads, 8, 16), 256, 0, stream>>>(a, g);
  HEADROOM_TRY(HEADROOM_LAUNCHED());
  constexpr int kKeyShared = KeyPassMemory<T, D>::kBytes;
  auto key_pass = key_pass_kernel<T, D>;
  HEADROOM_TRY(
      HEADROOM_CUDA(cudaFuncSetAttribute(key_pass, cudaFuncAttributeMaxDynamicSharedMemorySize, kKeyShared)));
  const auto blocks = [](std::int64_t rows) { return static_cast<unsigned>((rows + kStrip - 1) / kStrip); };
  const auto batch = static_cast<unsigned>(a.batch);
  key_pass<<<dim3(blocks(a.key_length), static_cast<unsigned>(a.key_heads), batch), kThreads, kKeyShared,
             stream>>>(a, g);
  HEADROOM_TRY(HEADROOM_LAUNCHED());
  constexpr int kQueryShared = (2 * kStrip + 4 * kStep) * D * static_cast<int>(sizeof(T));
  auto query_pass = query_pass_kernel<T, D>;
  HEADROOM_TRY(HEADROOM_CUDA(
      cudaFuncSetAttribute(query_pass, cudaFuncAttributeMaxDynamicSharedMemorySize, kQueryShared)));
  query_pass<<<dim3(blocks(a.query_length), static_cast<unsigned>(a.heads), batch), kThreads, kQueryShared,
               stream>>>(a, g);
  return HEADROOM_LAUNCHED();
}

template <class T>
Status backward(const Attention& a, const AttentionGradient& g, cudaStream_t stream) {
  if (a.head_dim <= 64) return launch<T, 64>(a, g, stream);
  if (a.head_dim <= 128) return launch<T, 128>(a, g, stream);
  return launch<T, 256>(a, g, stream);
}

}  // namespace

Status attention_backward(const Attention& given, const AttentionGradient& g, cudaStream_t stream) {
  if (given.batch <= 0 || given.query_length <= 0) return {};
  HEADROOM_ASSIGN(const Attention a, completed(given));
  if (a.dtype == DType::fp32) return attention_backward_fp32(a, g, stream);
  if (!aligned16(g.d_o, g.d_q, g.d_k, g.d_v)) return fail("attention: expected 16-byte aligned gradients");
  return a.dtype == DType::bf16 ? backward<bf16>(a, g, stream) : backward<fp16>(a, g, stream);
}

}  // namespace headroom::gpu
