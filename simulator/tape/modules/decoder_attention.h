#pragma once

#include <string>
#include <utility>

#include "simulator/tape/modules/decoder_form.h"
#include "simulator/tape/modules/layers.h"
#include "simulator/tape/modules/model.h"

namespace headroom::tape {

/// Keys and values that later layers of a kind (full, sliding) take instead of making their own (Gemma 4).
struct SharedKeys {
  Tensor key[2], value[2];  ///< of full and of sliding layers
};

/// What a layer is given beside its hidden states.
struct LayerInput {
  const Tensor &cos, &sin, &mask;
  KvCache* cache = nullptr;
  int index = 0;
  std::int64_t tokens = 0;  ///< of a sequence
  SharedKeys* shared_keys = nullptr;  ///< where layers of the model borrow
  bool lends = false;                 ///< this one's are taken
  bool decoding() const { return cache != nullptr && tokens == 1; }
};

/// A decoder's self-attention as its family's code runs it: projections (separate, fused or latent), norms
/// over queries and keys, rotation, cache, attention, output.
class DecoderAttention {
 public:
  /// Makes the module that `part` of the form's order stands for; false when it is none of attention's.
  bool build(Model& model, const DecoderForm& form, char part, const Layer& layer, const std::string& name,
             int index);
  void describe(Model& model, const DecoderForm& form, const Attention& spec, const std::string& name);
  /// [B,T,h] to [B,T,h]; eager attention leaves its probabilities in `weights`.
  Tensor operator()(const ModelOptions& options, const Tensor& hidden, const LayerInput& input,
                    Tensor& weights) const;

 private:
  struct Heads {
    Tensor query, key, value;  ///< [B,heads,T,d]
    Tensor packed;             ///< the fused projection
    Tensor gate;               ///< [B,T,heads d], of the result
    std::vector<Tensor> held;  ///< variables that live as long
  };
  void build_sinks(Model& model, const std::string& name, int index);
  void build_latent(Model& model, const std::string& name, int index);
  /// One norm over all heads together (OLMo 2), which a single group's size does not tell.
  bool norms_whole() const { return query_norm_.norm.size != spec_.head_dim && !form_->norms_by_head; }
  Tensor split_heads(Tensor projected, const NormLayer& norm) const;
  Heads project(const Tensor& hidden) const;
  Heads project_borrowed(const Tensor& hidden, const LayerInput& input) const;
  Heads project_gated(const Tensor& hidden) const;
  Heads unpack(Tensor packed) const;
  Heads project_latent(const Tensor& hidden, const LayerInput& input) const;
  void expand_latent(Heads& heads, const Tensor& latent, const Tensor& turned) const;
  Tensor attend(const ModelOptions& options, Heads& heads, const Tensor& mask, Tensor& weights) const;

  const DecoderForm* form_ = nullptr;
  Attention spec_;
  std::int64_t hidden_ = 0;
  bool dropout_ = false;  ///< of eager attention's probabilities
  LinearLayer query_, key_, value_, packed_, output_;
  LinearLayer query_down_, kv_down_, kv_up_;  ///< latent attention; `query_` is then the way up
  NormLayer query_norm_, key_norm_, value_norm_;
  Tensor sinks_;  ///< [heads] or undefined
  std::uint32_t module_ = 0;
};

}  // namespace headroom::tape
