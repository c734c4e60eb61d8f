#pragma once

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// torch.nn.functional.scaled_dot_product_attention on [B,heads,T,d] views, keys and values with their own
/// number of heads (enable_gqa). The result has the query's memory order. Saves key, query, value,
/// logsumexp, result, offset, seed; the log-sum-exp exists only when gradients are wanted. So cuDNN does it;
/// fp32, other GPUs and a process held to another kernel take those of dense_flash_attention.h and
/// fp32_attention.h.
Tensor scaled_dot_product_attention(Arg query, Arg key, Arg value, bool causal = true);

/// The same with an explicit mask [B or 1,1 or heads,T,columns]: numbers to add, or booleans, which become
/// numbers of the query's dtype in every call; saved with the rest. All heads have keys and values of their
/// own, or one pair serves all in the composite form.
Tensor masked_attention(Arg query, Arg key, Arg value, const Tensor& mask);

}  // namespace headroom::tape
