#pragma once

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// torch.nn.functional.scaled_dot_product_attention on [B,heads,T,d] views, keys and values with their own
/// number of heads (enable_gqa). The result has the query's memory order. Saves key, query, value,
/// logsumexp, result, offset, seed; the log-sum-exp exists only when gradients are wanted.
Tensor scaled_dot_product_attention(Arg query, Arg key, Arg value, bool causal = true);

}  // namespace headroom::tape
