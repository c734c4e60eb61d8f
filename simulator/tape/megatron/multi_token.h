#pragma once

#include <vector>

#include "simulator/tape/megatron/layer.h"

namespace headroom::tape::megatron {

/// Multi-token prediction: behind the last decoder layer each depth joins the hidden states before it with the
/// embedding of the token that follows, and runs one more decoder layer over them.

/// One depth's weights: its two norms and its projection ("enorm.", "hnorm.", "eh_proj.", "final_layernorm."), and its
/// decoder layer's.
struct PredictionDepth {
  LayerWeights ends, layer;
};

/// Hidden states of one depth out of those before it and the embedded next tokens, both [tokens / t, hidden]. Norms of
/// both; their concatenation [tokens / t, 2 · hidden]; a product cut by columns, whose features are gathered over the
/// tensor ranks and, under sequence parallelism, split by tokens again; a decoder layer; a norm.
/// Source: transformer/multi_token_prediction.py of Megatron-Core 0.20; unrecorded.
Tensor predict_depth(Context& context, const Layer& layer, const Norm& norm, const PredictionDepth& depth,
                     const Tensor& hidden, const Tensor& embedded);

/// `hidden`, whose backward begins that of `loss` too (MTPLossAutoScaler): keeps the loss and gives it a gradient of
/// ones.
Tensor with_loss(Context& context, Arg hidden, const Tensor& loss);

}  // namespace headroom::tape::megatron
