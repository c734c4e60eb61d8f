#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/tape/modules/decoder_form.h"
#include "simulator/tape/modules/model.h"

namespace headroom::tape {

/// Where each token goes. `logits` is what a router also returns and a layer holds until its MLP ends.
struct Routing {
  Tensor logits;   ///< [N,E]
  Tensor weights;  ///< [N,k]
  Tensor chosen;   ///< [N,k] int64
};

/// Chooses `experts_per_token` experts for each row by a linear over all of them.
class Router {
 public:
  void build(Model& model, const DecoderForm& form, const Mlp& spec, const std::string& name, int index);
  /// hidden: [N,h] or [B,T,h].
  Routing operator()(const Tensor& hidden) const;

 private:
  Routing softmax_first(const Tensor& rows) const;
  Routing softmax_last(const Tensor& rows) const;
  Routing softmax_fp32(const Tensor& rows) const;
  Routing sigmoid_fp32(const Tensor& rows) const;
  Tensor fp32_logits(const Tensor& rows) const;
  Tensor closed_experts(const Tensor& scores, std::vector<Tensor>& held) const;

  Mlp spec_;
  RouterForm form_ = RouterForm::softmax;
  Tensor weight_;      ///< [E,h]
  Tensor bias_;        ///< [E] or undefined
  Tensor correction_;  ///< [E], a buffer
};

}  // namespace headroom::tape
