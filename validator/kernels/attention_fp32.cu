#include "validator/kernels/attention.cuh"
#include "validator/kernels/launch.h"

// Attention of fp32 tensors on the plain units: one warp a row. A lane holds one of 32 partners' scores while
// scores are formed and every 32nd element of head_dim while they are applied.
namespace headroom::gpu {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr int kSlices = 8;  // head_dim <= 32 * kSlices

extern __shared__ float row_memory[];

__device__ inline float dot(const float* a, const float* b, int n) {
  float sum = 0.0f;
  for (int i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

__device__ inline void keep_row(float* kept, const float* from, int columns) {
  for (int d = threadIdx.x % 32; d < columns; d += 32) kept[d] = from[d];
  __syncwarp();
}

// acc += weight of each of 32 partners times its row.
__device__ inline void apply(float weight, const float* rows, std::int64_t stride, int count, int columns,
                             float (&acc)[kSlices]) {
  const int lane = threadIdx.x % 32;
  for (int i = 0; i < count; ++i) {
    const float w = __shfl_sync(0xffffffffu, weight, i);
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
      const int d = s * 32 + lane;
      if (d < columns) acc[s] += w * rows[i * stride + d];
    }
  }
}

__device__ inline void store(float* out, int columns, float factor, const float (&acc)[kSlices]) {
#pragma unroll
  for (int s = 0; s < kSlices; ++s) {
    const int d = s * 32 + static_cast<int>(threadIdx.x % 32);
    if (d < columns) out[d] = acc[s] * factor;
  }
}

__global__ void __launch_bounds__(kThreads) forward_kernel(const Attention a) {
  const int head = blockIdx.y, key_head = head / static_cast<int>(a.heads / a.key_heads),
            lane = threadIdx.x % 32;
  const AttentionView<float> view(a, blockIdx.z, head, key_head);
  const int query = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32),
            columns = static_cast<int>(a.head_dim);
  if (query >= view.queries) return;
  float* q = row_memory + threadIdx.x / 32 * columns;
  keep_row(q, view.q + query * a.q_stride, columns);
  float top = -INFINITY, sum = 0.0f, out[kSlices] = {};
  const int end = min(view.keys, query + view.offset + 1);
  for (int key = 0; key < end; key += 32) {
    const bool seen = key + lane < end;
    const float s = seen ? dot(q, view.k + (key + lane) * a.k_stride, columns) * a.scale : -INFINITY;
    const float next = fmaxf(top, reduce_warp<Max>(s)), shrink = expf(top - next), p = expf(s - next);
    top = next;
    sum = sum * shrink + reduce_warp<Sum>(p);
#pragma unroll
    for (int i = 0; i < kSlices; ++i) out[i] *= shrink;
    apply(p, view.v + key * a.v_stride, a.v_stride, min(32, end - key), columns, out);
  }
  store(static_cast<float*>(a.o) + (view.first_query + query) * a.o_stride + head * columns, columns,
        sum > 0.0f ? 1.0f / sum : 0.0f, out);
  if (lane == 0 && a.logsumexp != nullptr) {
    a.logsumexp[head * a.query_tokens + view.first_query + query] = sum > 0.0f ? top + logf(sum) : INFINITY;
  }
}

__global__ void __launch_bounds__(kThreads) query_pass_kernel(const Attention a, const AttentionGradient g) {
  const int head = blockIdx.y, key_head = head / static_cast<int>(a.heads / a.key_heads),
            lane = threadIdx.x % 32;
  const AttentionView<float> view(a, blockIdx.z, head, key_head);
  const int query = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32),
            columns = static_cast<int>(a.head_dim);
  if (query >= view.queries) return;
  float* q = row_memory + threadIdx.x / 32 * 2 * columns;
  float* d_o = q + columns;
  const std::int64_t o_at = (view.first_query + query) * a.o_stride + head * columns;
  keep_row(q, view.q + query * a.q_stride, columns);
  keep_row(d_o, static_cast<const float*>(g.d_o) + o_at, columns);
  float delta = 0.0f;
  for (int d = lane; d < columns; d += 32) delta += d_o[d] * static_cast<const float*>(a.o)[o_at + d];
  delta = reduce_warp<Sum>(delta);
  const std::int64_t at = head * a.query_tokens + view.first_query + query;
  if (lane == 0) g.delta[at] = delta;
  const float logsumexp = a.logsumexp[at];
  float d_q[kSlices] = {};
  const int end = min(view.keys, query + view.offset + 1);
  for (int key = 0; key < end; key += 32) {
    float d_s = 0.0f;
    if (key + lane < end) {
      const float p = expf(dot(q, view.k + (key + lane) * a.k_stride, columns) * a.scale - logsumexp);
      d_s = p * (dot(d_o, view.v + (key + lane) * a.v_stride, columns) - delta);
    }
    apply(d_s, view.k + key * a.k_stride, a.k_stride, min(32, end - key), columns, d_q);
  }
  store(static_cast<float*>(g.d_q) + (view.first_query + query) * a.q_stride + head * columns, columns,
        a.scale, d_q);
}

__global__ void __launch_bounds__(kThreads) key_pass_kernel(const Attention a, const AttentionGradient g) {
  const int key_head = blockIdx.y, group = static_cast<int>(a.heads / a.key_heads), lane = threadIdx.x % 32;
  const AttentionView<float> view(a, blockIdx.z, key_head * group, key_head);
  const int key = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32),
            columns = static_cast<int>(a.head_dim);
  if (key >= view.keys) return;
  float* k = row_memory + threadIdx.x / 32 * 2 * columns;
  float* v = k + columns;
  keep_row(k, view.k + key * a.k_stride, columns);
  keep_row(v, view.v + key * a.v_stride, columns);
  float d_k[kSlices] = {}, d_v[kSlices] = {};
  for (int h = 0; h < group; ++h) {
    const int head = key_head * group + h;
    const float* q = view.q + h * columns;
    const float* d_o = static_cast<const float*>(g.d_o) + view.first_query * a.o_stride + head * columns;
    const std::int64_t at = head * a.query_tokens + view.first_query;
    for (int query = max(0, key - view.offset); query < view.queries; query += 32) {
      float p = 0.0f, d_s = 0.0f;
      if (const int i = query + lane; i < view.queries) {
        p = expf(dot(k, q + i * a.q_stride, columns) * a.scale - a.logsumexp[at + i]);
        d_s = p * (dot(v, d_o + i * a.o_stride, columns) - g.delta[at + i]);
      }
      const int count = min(32, view.queries - query);
      apply(p, d_o + query * a.o_stride, a.o_stride, count, columns, d_v);
      apply(d_s, q + query * a.q_stride, a.q_stride, count, columns, d_k);
    }
  }
  store(static_cast<float*>(g.d_k) + (view.first_key + key) * a.k_stride + key_head * columns, columns,
        a.scale, d_k);
  store(static_cast<float*>(g.d_v) + (view.first_key + key) * a.v_stride + key_head * columns, columns, 1.0f,
        d_v);
}

dim3 grid_of(std::int64_t rows, std::int64_t heads, std::int64_t batch) {
  return dim3(static_cast<unsigned>((rows + kWarps - 1) / kWarps), static_cast<unsigned>(heads),
              static_cast<unsigned>(batch));
}

}  // namespace

Status attention_forward_fp32(const Attention& a, cudaStream_t stream) {
  const auto shared = static_cast<std::size_t>(kWarps * a.head_dim) * sizeof(float);
  forward_kernel<<<grid_of(a.query_length, a.heads, a.batch), kThreads, shared, stream>>>(a);
  return HEADROOM_LAUNCHED();
}

Status attention_backward_fp32(const Attention& a, const AttentionGradient& g, cudaStream_t stream) {
  const auto shared = static_cast<std::size_t>(2 * kWarps * a.head_dim) * sizeof(float);
  query_pass_kernel<<<grid_of(a.query_length, a.heads, a.batch), kThreads, shared, stream>>>(a, g);
  HEADROOM_TRY(HEADROOM_LAUNCHED());
  key_pass_kernel<<<grid_of(a.key_length, a.key_heads, a.batch), kThreads, shared, stream>>>(a, g);
  return HEADROOM_LAUNCHED();
}

}  // namespace headroom::gpu
