#pragma once

#include <string>
#include <vector>

#include "simulator/tape/modules/layers.h"
#include "simulator/tape/modules/model.h"

namespace headroom::tape {

/// OPT: learned positions counted from the mask, norms before or after each branch, a plain MLP over
/// flattened rows, projections in and out where the embedding is narrower (350M). Its dropout is functional,
/// so recipes that zero nn.Dropout modules leave it on: a mask for each branch in train mode.
class OptDecoder : public Model {
 public:
  OptDecoder(Tape& tape, const Architecture& architecture, const std::string& path,
             const ModelOptions& options);
  Tensor hidden_states(const ModelInput& input) override;

 private:
  struct DecoderLayer {
    LinearLayer query, key, value, output, up, down;
    NormLayer attention_norm, mlp_norm;
    std::uint32_t module = 0, attention_module = 0;
  };
  void build_layer(DecoderLayer& own, int index);
  Tensor run(const DecoderLayer& layer, int index, const Tensor& input, const Tensor& mask, KvCache* cache);
  Tensor attend(const DecoderLayer& layer, int index, const Tensor& hidden, const Tensor& mask,
                Tensor& weights, KvCache* cache);
  Tensor maybe_dropout(Tensor hidden) const;

  Tensor embedding_, position_table_;
  LinearLayer project_in_, project_out_;
  NormLayer final_norm_;
  std::vector<DecoderLayer> layers_;
  std::uint32_t body_module_ = 0, embedding_module_ = 0, position_module_ = 0;
};

}  // namespace headroom::tape
