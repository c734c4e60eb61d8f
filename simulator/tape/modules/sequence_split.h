#pragma once

#include <cstdint>

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// Sequence parallelism beside tensor parallelism, as PyTorch's DTensor does it (SequenceParallel norms, ColwiseParallel and
/// RowwiseParallel linears): between attention and MLP a rank holds every `ranks`-th part of the tokens [B, tokens, …]. Each
/// product that splits its output features gathers its own input; each that splits its input features leaves a part.

/// [B, tokens × ranks, …] of each rank's part. Backward: a reduce-scatter.
Tensor gather_tokens(Arg self, std::int64_t ranks);

/// [B, ceil(tokens / ranks), …] of every rank's partial sums. Backward: an all-gather.
Tensor scatter_tokens(Arg self, std::int64_t ranks);

}  // namespace headroom::tape
