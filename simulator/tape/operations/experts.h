#pragma once

#include <utility>

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// What mixtures of experts add to the operators of dense models: ATen's index, index_put with accumulation,
/// topk, sort and _grouped_mm. Checked against recordings of PyTorch 2.11 on an H200, up to 344 pairs of
/// tokens and experts; beyond a single tile of a sort their scratch memory follows CUB's source.

/// self[index] along the first dimension: a copy of the rows; saves the index. Backward: zeros of self,
/// filled by a sorted accumulation.
Tensor index_rows(Arg self, Arg index);
/// self[..., [at], ...]: the same for one place along a dimension, by an index from a Python list.
Tensor index_one(Arg self, int dimension);

/// torch.topk over the last dimension: values and int64 indices [.., k]. Saves the indices; backward: zeros
/// of self, scattered into.
std::pair<Tensor, Tensor> topk(Arg self, std::int64_t k);

/// torch.sort of a vector of int64: sorted values and their places, with the sort's own scratch.
std::pair<Tensor, Tensor> sort(Arg self);

/// torch.nn.functional.grouped_mm of rows [S,K] in the order of their experts by one matrix an expert, each
/// [N,K], or [K,N] when `transposed`; offsets [E]. Result [S,N]. Saves weight, offsets and rows; backward:
/// gradient of the weight (all experts), then of the rows. In bf16 one kernel runs all groups, with their
/// sizes and pointers and every multiprocessor's descriptors as scratch; other dtypes run group by group.
/// Rows take the weight's dtype first; autocast does not know it.
Tensor grouped_mm(Arg rows, const Tensor& weight, const Tensor& offsets, bool transposed = false);

}  // namespace headroom::tape
