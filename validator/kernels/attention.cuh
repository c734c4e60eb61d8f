#pragma once

#include "validator/cuda/check.h"
#include "validator/kernels/attention.h"
#include "validator/kernels/numeric.cuh"

/// What the attention kernels share: one sequence's pointers and masks.
namespace headroom::gpu {

/// One (sequence, head) as a kernel sees it.
template <class T>
struct AttentionView {
  int queries, keys, offset;  ///< query i sees keys 0…i + offset under the causal mask
  const T *q, *k, *v;         ///< first token of this sequence at this head
  std::int64_t first_query, first_key;

  __device__ AttentionView(const Attention& a, int sequence, int head, int key_head) {
    const std::int64_t s = sequence;
    first_query = a.query_starts != nullptr ? a.query_starts[s] : s * a.query_length;
    first_key = a.key_starts != nullptr ? a.key_starts[s] : s * a.key_length;
    queries =
        static_cast<int>(a.query_starts != nullptr ? a.query_starts[s + 1] - first_query : a.query_length);
    keys = static_cast<int>(a.key_starts != nullptr ? a.key_starts[s + 1] - first_key : a.key_length);
    offset = a.causal ? keys - queries : keys;
    q = static_cast<const T*>(a.q) + first_query * a.q_stride + head * a.head_dim;
    k = static_cast<const T*>(a.k) + first_key * a.k_stride + key_head * a.head_dim;
    v = static_cast<const T*>(a.v) + first_key * a.v_stride + key_head * a.head_dim;
  }
  __device__ bool visible(int query, int key) const {
    return query < queries && key < keys && key <= query + offset;
  }
};

/// The arguments with every default filled in, or what is wrong with them.
Result<Attention> completed(const Attention&);

Status attention_forward_fp32(const Attention&, cudaStream_t);
Status attention_backward_fp32(const Attention&, const AttentionGradient&, cudaStream_t);

}  // namespace headroom::gpu
