#pragma once

#include "simulator/tape/modules/model.h"

namespace headroom::tape {

/// Attention proper, between the projections: query [B,H,T,d], key and value [B,K,T,d] views to the same
/// shape as the query's, by the model's attention implementation.
///
/// With Ulysses sequence parallelism over n ranks, tokens [T] are this rank's part: queries, keys and values
/// are exchanged so that each rank sees all n·T tokens of H/n heads, and the result is exchanged back. An
/// exchange makes contiguous parts, receives as many, and joins them: three times its bytes, two of which go
/// at once (verl/utils/ulysses.py: all_to_all_tensor). Fewer key heads than ranks are repeated first.
Tensor attention_core(const ModelOptions& options, Arg query, Arg key, Arg value);

}  // namespace headroom::tape
