#include <algorithm>
#include <cmath>

#include "validator/kernels/attention.cuh"
#include "validator/kernels/mma.cuh"

namespace headroom::gpu {
namespace {

extern __shared__ __align__(128) unsigned char tiles[];

constexpr int kWarps = 4, kThreads = kWarps * 32;
constexpr int kKeys = 64;  // keys a step

/// Rows of a warp's queries: the running maximum (of raw scores), sum, and the output so far.
template <int D>
struct RowState {
  float max[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};  // rows g and g + 8
  float out[D / 8][4] = {};
};

// Turns scores into probabilities below the new maximum and rescales what came before.
template <int D>
__device__ void absorb(RowState<D>& state, float (&s)[kKeys / 8][4], float scale_log2) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float top = state.max[half];
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) top = fmaxf(top, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
    const float base = top == -INFINITY ? 0.0f : top * scale_log2;
    const float shrink = exp2f(state.max[half] * scale_log2 - base);
    state.max[half] = top;
    float sum = 0.0f;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int j = 2 * half; j < 2 * half + 2; ++j) {
        s[n][j] = exp2f(s[n][j] * scale_log2 - base);
        sum += s[n][j];
      }
    }
    state.sum[half] = state.sum[half] * shrink + sum;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      state.out[n][2 * half] *= shrink;
      state.out[n][2 * half + 1] *= shrink;
    }
  }
}

template <class T, int D>
__device__ void mask(const AttentionView<T>& view, int query, int key, float (&s)[kKeys / 8][4]) {
  const int lane = threadIdx.x % 32, row = query + lane / 4, column = key + lane % 4 * 2;
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (!view.visible(row + j / 2 * 8, column + n * 8 + j % 2)) s[n][j] = -INFINITY;
    }
  }
}

template <class T, int D>
__device__ void store_rows(const Attention& a, const AttentionView<T>& view, int head, int query,
                           RowState<D>& state) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = state.sum[half];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    const int row = query + lane / 4 + half * 8;
    if (row >= view.queries) continue;
    const float inverse = sum > 0.0f ? 1.0f / sum : 0.0f;
    T* out = static_cast<T*>(a.o) + (view.first_query + row) * a.o_stride + head * a.head_dim;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      const int column = n * 8 + lane % 4 * 2;
      if (column >= a.head_dim) continue;
      *reinterpret_cast<std::uint32_t*>(out + column) =
          pack_pair(state.out[n][2 * half] * inverse, state.out[n][2 * half + 1] * inverse, T{});
    }
    if (lane % 4 == 0 && a.logsumexp != nullptr) {
      a.logsumexp[head * a.query_tokens + view.first_query + row] =
          sum > 0.0f ? state.max[half] * a.scale + logf(sum) : INFINITY;
    }
  }
}

// A block answers kWarps * 16 * Strips queries of one head: each warp `Strips` strips of 16, which share
// every fragment of keys and values that it loads. Keys and values come in two buffers, one filling while the
// other is used.
template <class T, int D, int Strips>
__global__ void __launch_bounds__(kThreads) forward_kernel(const Attention a) {
  constexpr int kQueries = kWarps * 16 * Strips;
  const int head = blockIdx.y, key_head = head / static_cast<int>(a.heads / a.key_heads);
  const AttentionView<T> view(a, blockIdx.z, head, key_head);
  // The last queries of a causal sequence have most work: they start first.
  const int query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kQueries;
  if (query >= view.queries) return;
  const int warp_query = query + static_cast<int>(threadIdx.x / 32) * 16 * Strips;
  const int columns = static_cast<int>(a.head_dim);

  const Tile<T, kQueries, D> q{reinterpret_cast<T*>(tiles)};
  const auto key_tile = [&](int stage) {
    return Tile<T, kKeys, D>{q.base + (kQueries + stage * 2 * kKeys) * D};
  };
  const auto value_tile = [&](int stage) {
    return Tile<T, kKeys, D>{q.base + (kQueries + (stage * 2 + 1) * kKeys) * D};
  };
  const auto fetch = [&](int step) {
    const int key = step * kKeys;
    key_tile(step % 2).template fill<kThreads>(view.k + key * a.k_stride, a.k_stride, view.keys - key,
                                               columns);
    value_tile(step % 2).template fill<kThreads>(view.v + key * a.v_stride, a.v_stride, view.keys - key,
                                                 columns);
    commit_copies();
  };

  const int last_key = min(view.keys, query + kQueries + view.offset);  // first key that no query here sees
  const int steps = max(0, (last_key + kKeys - 1) / kKeys);
  q.template fill<kThreads>(view.q + query * a.q_stride, a.q_stride, view.queries - query, columns);
  if (steps > 0) fetch(0);
  commit_copies();

  RowState<D> state[Strips];
  const float scale_log2 = a.scale * kLog2e;
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps)
      fetch(step + 1);
    else
      commit_copies();
    wait_copies<1>();
    __syncthreads();
    const auto keys = key_tile(step % 2);
    const auto values = value_tile(step % 2);
    const int key = step * kKeys;
    float s[Strips][kKeys / 8][4] = {};
#pragma unroll
    for (int k = 0; k < D; k += 16) {
      FragmentA rows[Strips];
#pragma unroll
      for (int i = 0; i < Strips; ++i)
        rows[i] = q.a(static_cast<int>(threadIdx.x / 32) * 16 * Strips + i * 16, k);
#pragma unroll
      for (int n = 0; n < kKeys / 16; ++n) {
        const FragmentB2 b = keys.b_rows(n * 16, k);
#pragma unroll
        for (int i = 0; i < Strips; ++i) {
          multiply_add<T>(s[i][2 * n], rows[i], b.r[0], b.r[1]);
          multiply_add<T>(s[i][2 * n + 1], rows[i], b.r[2], b.r[3]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < Strips; ++i) {
      const int row = warp_query + i * 16;
      const bool whole =
          row + 16 <= view.queries && key + kKeys <= view.keys && key + kKeys - 1 <= row + view.offset;
      if (!whole) mask<T, D>(view, row, key, s[i]);
      absorb<D>(state[i], s[i], scale_log2);
    }
#pragma unroll
    for (int k = 0; k < kKeys; k += 16) {
      FragmentA p[Strips];
#pragma unroll
      for (int i = 0; i < Strips; ++i) p[i] = as_operand<T>(s[i][k / 8], s[i][k / 8 + 1]);
#pragma unroll
      for (int n = 0; n < D / 16; ++n) {
        const FragmentB2 b = values.b_columns(k, n * 16);
#pragma unroll
        for (int i = 0; i < Strips; ++i) {
          multiply_add<T>(state[i].out[2 * n], p[i], b.r[0], b.r[1]);
          multiply_add<T>(state[i].out[2 * n + 1], p[i], b.r[2], b.r[3]);
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < Strips; ++i) store_rows<T, D>(a, view, head, warp_query + i * 16, state[i]);
}

template <class T, int D, int Strips>
Status launch(const Attention& a, cudaStream_t stream) {
  constexpr int kQueries = kWarps * 16 * Strips;
  constexpr int kShared = (kQueries + 4 * kKeys) * D * static_cast<int>(sizeof(T));
  auto kernel = forward_kernel<T, D, Strips>;
  HEADROOM_TRY(
      HEADROOM_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared)));
  const dim3 grid(static_cast<unsigned>((a.query_length + kQueries - 1) / kQueries),
                  static_cast<unsigned>(a.heads), static_cast<unsigned>(a.batch));
  kernel<<<grid, kThreads, kShared, stream>>>(a);
  return HEADROOM_LAUNCHED();
}

template <class T>
Status forward(const Attention& a, cudaStream_t stream) {
  if (a.head_dim <= 64) return launch<T, 64, 2>(a, stream);
  if (a.head_dim <= 128) return launch<T, 128, 2>(a, stream);
  return launch<T, 256, 1>(a, stream);
}

}  // namespace

Result<Attention> completed(const Attention& given) {
  Attention a = given;
  if (a.heads <= 0 || a.key_heads <= 0 || a.heads % a.key_heads != 0) {
    return fail("attention: expected query heads that are a multiple of the key heads");
  }
  if (a.head_dim <= 0 || a.head_dim > 256 || a.head_dim % 8 != 0) {
    return fail("attention: expected head_dim to be a multiple of 8, at most 256, found " +
                std::to_string(a.head_dim));
  }
  if (a.batch > 65535 || a.heads > 65535)
    return fail("attention: expected at most 65535 sequences and heads");
  if (a.q_stride == 0) a.q_stride = a.heads * a.head_dim;
  if (a.k_stride == 0) a.k_stride = a.key_heads * a.head_dim;
  if (a.v_stride == 0) a.v_stride = a.key_heads * a.head_dim;
  if (a.o_stride == 0) a.o_stride = a.heads * a.head_dim;
  if (a.query_tokens == 0) a.query_tokens = a.batch * a.query_length;
  if (a.scale == 0.0f) a.scale = 1.0f / std::sqrt(static_cast<float>(a.head_dim));
  if (a.dtype != DType::fp32 &&
      ((a.q_stride | a.k_stride | a.v_stride | a.o_stride) % 8 != 0 || !aligned16(a.q, a.k, a.v, a.o))) {
    return fail("attention: expected 16-byte aligned tensors and token strides");
  }
  return a;
}

Status attention_forward(const Attention& given, cudaStream_t stream) {
  if (given.batch <= 0 || given.query_length <= 0) return {};
  HEADROOM_ASSIGN(const Attention a, completed(given));
  if (a.dtype == DType::bf16) return forward<bf16>(a, stream);
  if (a.dtype == DType::fp16) return forward<fp16>(a, stream);
  return attention_forward_fp32(a, stream);
}

}  // namespace headroom::gpu
