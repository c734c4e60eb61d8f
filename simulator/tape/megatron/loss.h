#pragma once

#include "simulator/tape/megatron/options.h"

namespace headroom::tape::megatron {

/// Losses over logits whose columns are split over the tensor ranks: [tokens, Vp / t].

/// Megatron's vocabulary-parallel cross-entropy: fp32 [tokens]. fp32 logits are overwritten by their softmax,
/// which is kept and becomes the gradient; others are copied to fp32 first, and their gradient is one more
/// tensor. Source: tensor_parallel/cross_entropy.py.
Tensor vocab_parallel_cross_entropy(Context& context, Arg logits);

/// The same compiled, as the model itself forms its loss with cross-entropy fusion ("native"): the
/// exponentials are one more fp32 tensor beside the copy. Source: fusions/fused_cross_entropy.py.
Tensor compiled_cross_entropy(Context& context, Arg logits);

/// verl's entropy of each token: fp32 [tokens]. Keeps the logits and an fp32 softmax of their size, which
/// becomes the gradient. `rows` > 0: without gradients by so many rows at a time. Source:
/// verl/utils/megatron/tensor_parallel.py.
Tensor vocab_parallel_entropy(Context& context, const Tensor& logits, std::int64_t rows);

}  // namespace headroom::tape::megatron
