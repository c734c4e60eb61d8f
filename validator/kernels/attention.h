#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "models/base/dtype.h"
#include "models/base/result.h"

namespace headroom::gpu {

/// Exact attention without the score matrix (Dao et al., FlashAttention-2, 2023): scores are formed tile by
/// tile, with a running maximum and sum a row. Query heads share key heads in groups (GQA). The causal mask
/// is aligned to the end: query i of q sees keys up to i + k - q.
///
/// Tensors are [tokens, heads, head_dim] with dense heads; a token stride allows slices of a joint
/// projection. Either every sequence has `query_length` and `key_length` tokens, or `query_starts` and
/// `key_starts` (batch + 1 int32 offsets on the device) say where each begins and the lengths bound them.
/// head_dim is a multiple of 8, at most 256. fp16 and bf16 run on tensor cores, fp32 on the plain units.
struct Attention {
  DType dtype = DType::bf16;
  std::int64_t batch = 0, query_length = 0, key_length = 0, heads = 0, key_heads = 0, head_dim = 0;
  const std::int32_t* query_starts = nullptr;
  const std::int32_t* key_starts = nullptr;
  std::int64_t query_tokens = 0;  ///< of all sequences; 0: batch * query_length
  bool causal = true;
  float scale = 0.0f;  ///< 0: 1 / sqrt(head_dim)
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* o = nullptr;
  float* logsumexp = nullptr;  ///< [heads, query tokens]; kept for the backward
  std::int64_t q_stride = 0, k_stride = 0, v_stride = 0, o_stride = 0;  ///< elements a token; 0: dense
};
Status attention_forward(const Attention&, cudaStream_t stream);

/// Gradients, deterministic: one pass by keys for d_k and d_v, one by queries for d_q. `delta` holds
/// [heads, query tokens] fp32 of working space. d_* have the strides of their tensors, d_o that of o.
struct AttentionGradient {
  const void* d_o = nullptr;
  void* d_q = nullptr;
  void* d_k = nullptr;
  void* d_v = nullptr;
  float* delta = nullptr;
};
Status attention_backward(const Attention&, const AttentionGradient&, cudaStream_t stream);

}  // namespace headroom::gpu
