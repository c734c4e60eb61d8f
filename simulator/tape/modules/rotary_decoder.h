#pragma once

#include <memory>
#include <vector>

#include "simulator/tape/modules/layers.h"
#include "simulator/tape/modules/model.h"
#include "simulator/tape/modules/rotary.h"

namespace headroom::tape {

/// The code shape of Llama, Mistral, Qwen2 and Qwen3: rotary positions, RMSNorm (or LayerNorm) before each
/// branch, separate q, k, v, optional norms over q and k, a gated MLP.
class RotaryDecoder : public Model {
 public:
  RotaryDecoder(Tape& tape, const Architecture& architecture, const std::string& path,
                const ModelOptions& options);
  static bool covers(const Decoder& decoder);
  Tensor hidden_states(const ModelInput& input) override;

 private:
  struct AttentionLayer {
    LinearLayer query, key, value, output;
    NormLayer query_norm, key_norm;
    std::int64_t head_dim = 0;
    std::uint32_t module = 0;
  };
  struct DecoderLayer {
    AttentionLayer attention;
    GatedMlp mlp;
    NormLayer attention_norm, mlp_norm;
    std::uint32_t module = 0;
  };

  void build_layer(DecoderLayer& layer, int index);
  Tensor run(const DecoderLayer& layer, int index, const Tensor& input, const Tensor& cos, const Tensor& sin,
             KvCache* cache);
  Tensor attend(const AttentionLayer& attention, int index, const Tensor& hidden, const Tensor& cos,
                const Tensor& sin, KvCache* cache);

  Tensor embedding_;
  std::uint32_t body_module_ = 0, embedding_module_ = 0;
  std::vector<DecoderLayer> layers_;
  NormLayer final_norm_;
  RotaryEmbedding rotary_;
};

}  // namespace headroom::tape
