#pragma once

#include <cstdint>

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// Routed experts that are dealt out over `ranks` ranks, as NeMo Automodel runs them over DeepEP
/// (`GroupedExpertsDeepEP`, `MoEFlexTokenDispatcher`): a token goes once to each rank that has one of its experts, is
/// repeated there for each of them, goes through two grouped products with one compiled kernel of activation and weight
/// between them, is summed by token and returns as one row. DeepEP's own buffers are not PyTorch's.
struct DispatchedExperts {
  std::int64_t ranks = 1;
  std::int64_t chosen = 1;   ///< experts of a token
  bool transposed = false;   ///< matrices lie [in,out]
  bool gated = true;         ///< the first product has gate and up side by side
  const Tensor* up = nullptr;
  const Tensor* down = nullptr;
  const Tensor* up_bias = nullptr;  ///< undefined: none
  const Tensor* down_bias = nullptr;

  /// Rows [N,h] and their weights to [N,h]. Every rank is taken to route alike, all experts to be as likely.
  Tensor operator()(const Tensor& rows, const Tensor& weights) const;
};

}  // namespace headroom::tape
