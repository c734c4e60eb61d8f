#pragma once

#include <string>
#include <vector>

#include "simulator/tape/modules/layers.h"
#include "simulator/tape/modules/model.h"
#include "simulator/tape/modules/rotary.h"

namespace headroom::tape {

/// GPT-NeoX (Pythia): one projection whose rows interleave q, k and v of each head, a part of each head
/// rotated, both branches reading the layer's input (or one after the other), a plain MLP.
class NeoxDecoder : public Model {
 public:
  NeoxDecoder(Tape& tape, const Architecture& architecture, const std::string& path,
              const ModelOptions& options);
  Tensor hidden_states(const ModelInput& input) override;

 private:
  struct DecoderLayer {
    NormLayer attention_norm, mlp_norm;
    LinearLayer qkv, output, up, down;
    std::uint32_t module = 0, attention_module = 0, mlp_module = 0;
  };
  /// What all layers share.
  struct Shared {
    const Tensor &cos, &sin, &mask;
    KvCache* cache;
  };
  void build_layer(DecoderLayer& own, int index);
  Tensor run(const DecoderLayer& layer, int index, const Tensor& input, const Shared& shared);
  Tensor attend(const DecoderLayer& layer, int index, Arg hidden, const Shared& shared, Tensor& weights);
  Tensor maybe_dropout(Tensor hidden) const;
  Tensor mlp(const DecoderLayer& layer, int index, Arg input);

  Tensor embedding_;
  NormLayer final_norm_;
  RotaryEmbedding rotary_;
  std::vector<DecoderLayer> layers_;
  std::uint32_t body_module_ = 0, embedding_module_ = 0;
};

}  // namespace headroom::tape
