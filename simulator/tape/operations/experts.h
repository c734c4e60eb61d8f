#pragma once

#include <utility>

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// What mixtures of experts add to the operators of dense models. Source: ATen's index, index_put with
/// accumulation, topk, sort and _grouped_mm (no recording).

/// self[index] along the first dimension: a copy of the rows; saves the index. Backward: zeros of self,
/// filled by a sorted accumulation.
Tensor index_rows(Arg self, Arg index);

/// torch.topk over the last dimension: values and int64 indices [.., k]. Saves the indices; backward: zeros
/// of self, scattered into.
std::pair<Tensor, Tensor> topk(Arg self, std::int64_t k);

/// torch.sort of a vector of int64: sorted values and their places, with the sort's own scratch.
std::pair<Tensor, Tensor> sort(Arg self);

/// torch._grouped_mm: rows [S,K] in the order of their experts, weight [E,N,K] turned, offsets [E]. Result
/// [S,N]; saves rows, weight and offsets. Backward: gradient of the weight (all experts), then of the rows.
Tensor grouped_mm(Arg rows, const Tensor& weight, const Tensor& offsets);

}  // namespace headroom::tape
