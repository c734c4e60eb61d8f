#pragma once

#include "simulator/tape/megatron/layer.h"

namespace headroom::tape::megatron {

/// Attention of Megatron-Core's own layers over the normed [s · b, hidden] (split over the tensor ranks under
/// sequence parallelism), `Context::sequences` being b. Queries are copied out of the fused projection,
/// values stay a view of it and keep it whole; rotary positions are formed operator by operator, with tables
/// of cos and sin anew for queries and keys. The core is FlashAttention, or with `eager` Megatron's own
/// (`own_core_attention`).
/// Source: transformer/attention.py, models/common/embeddings/rope_utils.py.
Tensor own_attention(Context& context, const Layer& layer, const LayerWeights& weights, Arg normed);

/// Megatron's DotProductAttention over [s, b, heads, d]: keys and values repeated for each query head, scores
/// in the process' global buffer's stead, an fp32 softmax, both kept; [s, b, heads · d]. Source:
/// transformer/dot_product_attention.py, fusions/fused_softmax.py without its kernels.
Tensor own_core_attention(Context& context, const Tensor& query, const Tensor& key, const Tensor& value);

}  // namespace headroom::tape::megatron
