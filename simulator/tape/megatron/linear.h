#pragma once

#include "simulator/tape/megatron/options.h"

namespace headroom::tape::megatron {

/// TransformerEngine's linear layers over [tokens, features]. Weights are [out, in] of this rank. With
/// Megatron's own layers (`Context::local`) a norm stands alone and products are `own_linear`'s.

/// How a product stands among the tensor ranks.
enum class Cut {
  column,      ///< output features are split; sequence-parallel inputs are gathered first
  row,         ///< input features are split; outputs are summed over the ranks
  duplicated,  ///< every rank has the whole weight and its own tokens
};

/// Scale and, for LayerNorm, shift.
struct NormWeights {
  Tensor scale, shift;
  bool layer_norm = false;
  bool present() const { return scale.defined(); }
};

/// LayerNormLinear (column): norm and product in one autograd function.
///   keeps     input, norm output (both sharded under sequence parallelism), fp32 statistics
///   forward   gathered norm output [T, in] until the product is done
///   backward  gathered again; input gradient [T, in], its reduce-scattered part, weight gradient, then the
///             norm's input gradient
/// Linear, the same without norm: keeps its input.
/// In FP8 (unrecorded): products read operands of one byte a number, and those that the backward needs are
/// kept so, beside whatever others keep of them; each weight has both forms for good.
/// With gradient accumulation fusion a weight's gradient goes into the gradient buffer and autograd gets a
/// process-wide placeholder; else it is a tensor of its own until it has been added there.
Tensor norm_linear(Context& context, Arg input, const NormWeights& norm, const Tensor& weight,
                   const Tensor& bias);
Tensor linear(Context& context, Arg input, const Tensor& weight, const Tensor& bias, Cut cut);

/// A norm of its own: keeps input and fp32 statistics.
Tensor norm(Context& context, Arg input, const NormWeights& weights);

/// GroupedLinear: every local expert's product over its rows of [slots, in], weight [experts, out, in]. Keeps
/// the input.
Tensor grouped_linear(Context& context, Arg input, const Tensor& weight, const Tensor& bias);

}  // namespace headroom::tape::megatron
