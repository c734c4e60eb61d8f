#pragma once

#include <string>

#include "simulator/tape/modules/model.h"
#include "simulator/tape/modules/router.h"

namespace headroom::tape {

/// The experts of a mixture as Transformers runs them by default. Of whole sequences: pairs of token and
/// expert sorted by expert, two grouped products over stacked matrices, results weighted, put back in order
/// and summed by token. Of a token that `generate` decodes: the chosen experts' matrices copied for every
/// pair, two batched products. Dealt out over ranks (`ModelOptions::expert_ranks`), a rank has its share of them and
/// runs `DispatchedExperts`.
class RoutedExperts {
 public:
  void build(Model& model, const DecoderForm& form, const Mlp& spec, const std::string& name, int index);
  /// [N,h] to [N,h].
  Tensor operator()(const Tensor& rows, const Routing& routing, bool decoding) const;

 private:
  Tensor grouped(const Tensor& rows, const Routing& routing) const;
  Tensor batched(const Tensor& rows, const Routing& routing) const;
  Tensor dispatched(const Tensor& rows, const Routing& routing) const;
  Tensor gated(const Tensor& both) const;

  Tensor gated_clamped(const Tensor& both) const;
  /// Rows [S,1,K] or [S,K,1] times a matrix for each.
  Tensor product(const Tensor& rows, const Tensor& weights) const;

  Mlp spec_;
  std::int64_t ranks_ = 1;  ///< over which experts are dealt out
  bool clamped_gate_ = false;
  bool transposed_ = false;          ///< matrices lie [in,out]
  Tensor gate_up_, down_;            ///< [E,2f,h] (without gates [E,f,h]) and [E,h,f], or transposed
  Tensor gate_up_bias_, down_bias_;  ///< [E,2f] and [E,h], or undefined
};

}  // namespace headroom::tape
