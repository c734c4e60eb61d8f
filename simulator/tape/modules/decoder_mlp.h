#pragma once

#include <memory>
#include <string>
#include <utility>

#include "simulator/tape/modules/decoder_form.h"
#include "simulator/tape/modules/layers.h"
#include "simulator/tape/modules/model.h"

namespace headroom::tape {

/// A decoder's MLP: gated (gate and up apart or in one projection), plain, or a mixture of experts.
class DecoderMlp {
 public:
  void build(Model& model, const DecoderForm& form, const Mlp& spec, const std::string& name, int index);
  /// [B,T,h] to [B,T,h].
  Tensor operator()(const Tensor& hidden) const;

 private:
  void build_dense(Model& model, const DecoderForm& form, const std::string& name, std::int64_t width,
                   bool bias, int index);
  void build_experts(Model& model, const DecoderForm& form, const std::string& name, int index);
  Tensor dense(const Tensor& hidden) const;
  Tensor mixture(const Tensor& hidden) const;
  /// Weights in the model's dtype and indices, both [N,k].
  std::pair<Tensor, Tensor> route(const Tensor& rows) const;
  Tensor experts(const Tensor& rows, const Tensor& weights, const Tensor& chosen) const;
  Tensor gated(Tensor both) const;

  Mlp spec_;
  RouterForm router_form_ = RouterForm::softmax;
  std::uint32_t module_ = 0;
  LinearLayer gate_, up_, down_;  ///< of a dense MLP
  Tensor router_, gate_up_experts_, down_experts_, correction_;
  std::unique_ptr<DecoderMlp> shared_;
  LinearLayer shared_gate_;
};

}  // namespace headroom::tape
