#pragma once

#include <map>
#include <string>

#include "models/architecture/architecture.h"
#include "simulator/tape/megatron/linear.h"

namespace headroom::tape::megatron {

/// The weights of one decoder layer by Megatron's names: self_attention.linear_qkv.weight …
class LayerWeights {
 public:
  void put(const std::string& name, const Tensor& tensor) { tensors_[name] = tensor; }
  /// Undefined when the layer has none of that name.
  Tensor operator()(const std::string& name) const;
  /// `prefix` + weight and bias.
  NormWeights norm(const std::string& prefix, const Norm& spec) const;

 private:
  std::map<std::string, Tensor> tensors_;
};

/// Multi-head or grouped-query attention over [tokens, hidden] (split over the tensor ranks under sequence
/// parallelism); its norm is part of the first product. Keeps, a token of this rank and over t: norm input
/// and output, query, key, value, the attention's output (the next product's input) and its log-sum-exp.
/// Context parallelism adds the ring's buffers, or, by all-to-all, the output before it is sent back.
Tensor self_attention(Context& context, const Layer& layer, const LayerWeights& weights, const Tensor& x);

/// DeepSeek's latent attention: down projections on every rank, up projections with their norms cut by head.
/// `normed`: the input after its own norm.
Tensor latent_attention(Context& context, const Layer& layer, const LayerWeights& weights,
                        const Tensor& normed);

/// A mixer that keeps a state (MambaMixer, GatedDeltaNet): its norm is part of the projection in front; the
/// kernels are those of mamba_ssm and flash-linear-attention. Context ranks deal its heads out by an
/// all-to-all in front of the convolution and back behind the recurrence. Sources: Megatron-Core 0.16;
/// unrecorded.
Tensor state_mixer(Context& context, const Layer& layer, const LayerWeights& weights, const Tensor& x);

/// fc1, activation, fc2. `prefix`: "mlp." or "mlp.shared_experts."; `norm` is part of the first product when
/// present.
Tensor mlp(Context& context, const Layer& layer, const LayerWeights& weights, const std::string& prefix,
           const NormWeights& norm, Arg x);

/// Router, dispatch, experts, combination, shared expert, over the normed [tokens, hidden].
Tensor experts(Context& context, const Layer& layer, const LayerWeights& weights, const Tensor& x);

/// One decoder layer, its recomputed modules included.
Tensor decoder_layer(Context& context, const Layer& layer, const LayerWeights& weights, const Tensor& x);

/// Whether selective recomputation covers a module: core_attn, mlp, moe, moe_act, layernorm, mla_up_proj,
/// shared_experts.
bool recomputes(const Context& context, const char* module);

/// Output of a recomputed module whose consumers have run: its memory goes until the backward reaches the
/// function that made `later`, which makes it anew.
void discard_until_backward(Context& context, const Tensor& output, const Tensor& later);

}  // namespace headroom::tape::megatron
