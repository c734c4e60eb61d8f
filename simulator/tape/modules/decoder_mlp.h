#pragma once

#include <memory>
#include <string>

#include "simulator/tape/modules/decoder_form.h"
#include "simulator/tape/modules/layers.h"
#include "simulator/tape/modules/model.h"
#include "simulator/tape/modules/routed_experts.h"
#include "simulator/tape/modules/router.h"

namespace headroom::tape {

/// A decoder's MLP: gated (gate and up apart or in one projection), plain, or a mixture of experts.
class DecoderMlp {
 public:
  void build(Model& model, const DecoderForm& form, const Mlp& spec, const std::string& name, int index);
  /// [B,T,h] to [B,T,h]; `decoding`: one token a sequence behind a cache.
  Tensor operator()(const Tensor& hidden, bool decoding = false) const;

 private:
  void build_dense(Model& model, const DecoderForm& form, const std::string& name, std::int64_t width,
                   bool bias, int index);
  void build_experts(Model& model, const DecoderForm& form, const std::string& name, int index);
  Tensor dense(const Tensor& hidden) const;
  Tensor mixture(const Tensor& hidden, bool decoding) const;

  Mlp spec_;
  bool fp32_router_ = false;
  std::uint32_t module_ = 0;
  LinearLayer gate_, up_, down_;  ///< of a dense MLP
  Router router_;
  RoutedExperts experts_;
  std::unique_ptr<DecoderMlp> shared_;
  LinearLayer shared_gate_;
  LinearLayer narrow_, widen_;  ///< to the width that routed experts work in, and back
};

}  // namespace headroom::tape
