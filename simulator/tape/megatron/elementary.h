#pragma once

#include "simulator/tape/megatron/options.h"

namespace headroom::tape::megatron {

/// Fused kernels between the matrix products.

/// Rotary positions on [tokens, heads, d]: one new tensor of its size, forward and backward; nothing is kept
/// but the process' table of angles. Not fused, on packed sequences: each sequence's result and the join of
/// all, with three temporaries of one sequence.
Tensor rotary(Context& context, Arg input);

/// The activation between the two products of an MLP over [rows, 2f] (gated) or [rows, f]; with `weights`,
/// fp32 [rows], the result is weighted by them (experts).
///   fused    keeps the input (and the weights)
///   unfused  gated: keeps the activated half and the product's operands too, 8 bytes an element of f, and
///            the linear half with its offset, 2 more (0.15 and later)
Tensor activation(Context& context, Arg input, bool gated, const Tensor& weights);

/// A copy that counts as another tensor's: an all-to-all among `ranks` that keeps the number of bytes, both
/// ways.
Tensor exchange(Context& context, Arg input, std::int64_t ranks);

/// Autograd function whose forward and backward each make one tensor of `rows` rows out of the other.
using RowsMaker = Tensor (*)(const Context& context, const Tensor& from, std::int64_t rows,
                             std::int64_t ranks);
Tensor row_function(Context& context, Arg input, std::int64_t rows, std::int64_t ranks, RowsMaker forward,
                    RowsMaker backward);

}  // namespace headroom::tape::megatron
