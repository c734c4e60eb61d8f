#pragma once

#include <string>
#include <vector>

#include "simulator/tape/modules/layers.h"
#include "simulator/tape/modules/model.h"

namespace headroom::tape {

/// Transformers' Conv1D: a linear whose weight is stored [in, out], as one addmm over flattened rows.
struct Conv1dLayer : LinearLayer {
  void build(Model& model, const std::string& name, std::int64_t in, std::int64_t out, int layer);
  Tensor operator()(const Tensor& input) const;

 private:
  Tensor multiply(const Tensor& input) const;
};

/// GPT-2: learned positions, fused q, k, v in one Conv1D, LayerNorm before each branch, gelu_new written out
/// of separate operators.
class Gpt2Decoder : public Model {
 public:
  Gpt2Decoder(Tape& tape, const Architecture& architecture, const std::string& path,
              const ModelOptions& options);
  Tensor hidden_states(const ModelInput& input) override;

 private:
  struct DecoderLayer {
    NormLayer attention_norm, mlp_norm;
    Conv1dLayer qkv, output, up, down;
    std::uint32_t module = 0, attention_module = 0, mlp_module = 0;
  };
  void build_layer(DecoderLayer& own, int index);
  Tensor run(const DecoderLayer& layer, int index, const Tensor& input, const Tensor& mask, KvCache* cache);
  Tensor attend(const DecoderLayer& layer, int index, const Tensor& hidden, const Tensor& mask,
                Tensor& weights, KvCache* cache);
  Tensor mlp(const DecoderLayer& layer, int index, const Tensor& input);
  Tensor maybe_dropout(Tensor hidden, const std::string& name);

  Tensor embedding_, position_table_;
  NormLayer final_norm_;
  std::vector<DecoderLayer> layers_;
  std::uint32_t body_module_ = 0, embedding_module_ = 0, position_module_ = 0;
};

}  // namespace headroom::tape
