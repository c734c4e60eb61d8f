#pragma once

#include <string>

#include "simulator/tape/modules/decoder_attention.h"
#include "simulator/tape/modules/layers.h"
#include "simulator/tape/modules/model.h"

namespace headroom::tape {

/// A layer's mixer that keeps a state (Architecture's StateMixer), as Transformers runs it with the fused
/// kernels of flash-linear-attention, causal-conv1d and mamba_ssm. Decoding runs the same program on one
/// token, with the state in the cache.
class StateLayer {
 public:
  void build(Model& model, MixerKind kind, const StateMixer& spec, const std::string& name, int index);
  /// [B,T,h] to [B,T,h].
  Tensor operator()(const Tensor& hidden, const LayerInput& input) const;

 private:
  void build_own(Model& model, const std::string& name, int index);
  void build_gated_delta(Model& model, const std::string& name, int index);
  void build_mamba2(Model& model, const std::string& name, int index);
  Tensor gated_delta(const Tensor& hidden, const LayerInput& input) const;
  Tensor mamba2(const Tensor& hidden, const LayerInput& input) const;
  void keep(Tape& tape, const LayerInput& input, std::int64_t batch, DType dtype) const;

  MixerKind kind_ = MixerKind::none;
  StateMixer spec_;
  Tensor dt_bias_, decay_, skip_, convolution_, convolution_bias_, norm_;
  LinearLayer projection_, gate_, beta_, alpha_, output_;  ///< fused: projection_ and beta_ hold two parts
  std::uint32_t module_ = 0;
};

}  // namespace headroom::tape
