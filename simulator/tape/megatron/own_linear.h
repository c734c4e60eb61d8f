#pragma once

#include "simulator/tape/megatron/linear.h"

namespace headroom::tape::megatron {

/// Megatron-Core's own ColumnParallelLinear and RowParallelLinear, which multiply with torch: the local
/// layers' products, and with TransformerEngine's layers the output layer's.
///   keeps     its input (sharded under sequence parallelism)
///   forward   column: the input gathered into the process' global buffer; row: the whole sum until every
///             rank has its tokens
///   backward  column: gathered again; input gradient and its reduce-scattered part, weight gradient;
///             row: the gradient gathered first
/// Source: tensor_parallel/layers.py, mappings.py.
Tensor own_linear(Context& context, Arg input, const Tensor& weight, const Tensor& bias, Cut cut);

/// The vocabulary's columns [T, Vp / t] of sequence-parallel hidden states.
Tensor output_layer(Context& context, Arg input, const Tensor& weight);

}  // namespace headroom::tape::megatron
