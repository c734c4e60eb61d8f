#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "simulator/tape/modules/decoder_attention.h"
#include "simulator/tape/modules/decoder_form.h"
#include "simulator/tape/modules/decoder_mlp.h"
#include "simulator/tape/modules/layers.h"
#include "simulator/tape/modules/model.h"
#include "simulator/tape/modules/rotary.h"
#include "simulator/tape/modules/state_layer.h"
#include "simulator/tape/modules/token_inputs.h"

namespace headroom::tape {

/// A decoder put together from the blocks that its architecture names, in the order of its family's code
/// (DecoderForm): Llama and everything that resembles it, in sequence, in parallel, with norms before, behind
/// or around the branches, dense or with experts. A vision tower's weights are there; no image passes it.
class BlockDecoder : public Model {
 public:
  BlockDecoder(Tape& tape, const Architecture& architecture, const DecoderForm& form, const std::string& path,
               const ModelOptions& options);
  Tensor hidden_states(const ModelInput& input) override;

 private:
  struct DecoderLayer {
    DecoderAttention attention;
    StateLayer state;  ///< where the mixer is not attention
    DecoderMlp mlp;
    NormLayer norms[4];  ///< before attention, before MLP, behind attention, behind MLP
    LayerTokenInput token;
    std::uint32_t module = 0;
  };
  /// What layers of one kind (full, sliding) share in a forward.
  struct Positions {
    Tensor cos, sin, mask;
    bool used = false;
  };

  void build_towers(bool behind);
  void build_layer(DecoderLayer& own, int index);
  void build_rotary();
  void share_tokens();
  bool makes_rotary() const { return decoder_.position == PositionKind::rotary || form_.alibi_in_mask; }
  bool slides(int index) const { return decoder_.layer(index).attention.sliding_window > 0; }
  bool lends(int index) const;
  std::int64_t window() const;
  Tensor embed_tokens(const ModelInput& input, Tensor& embeddings);
  Positions positions_for(bool sliding, const ModelInput& input, const Tensor& positions, DType dtype);
  Tensor run(const DecoderLayer& layer, const Tensor& input, const LayerInput& shared);
  bool recomputes(std::string_view module) const;
  Tensor part(std::string_view module, const Tensor& in, std::vector<Tensor> captured, const Region& region);
  void hand_out(Tensor& weights);
  Tensor run_named(const DecoderLayer& layer, const Tensor& input, const LayerInput& shared);
  Tensor run_single(const DecoderLayer& layer, const Tensor& input, const LayerInput& shared);
  Tensor run_parallel(const DecoderLayer& layer, const Tensor& input, const LayerInput& shared);
  /// A branch's result on its way to the residual sum.
  Tensor join(const Tensor& residual, Tensor& result, const NormLayer& norm) const;

  const DecoderForm& form_;
  Tensor handed_out_;  ///< eager probabilities in the latest layer's result, until the next layer returns
  Tensor embedding_, scale_;
  std::deque<Tensor> towers_;
  TokenInputs token_inputs_;
  std::uint32_t body_module_ = 0, embedding_module_ = 0;
  std::vector<DecoderLayer> layers_;
  NormLayer embedding_norm_, final_norm_;
  RotaryEmbedding rotary_[2];  ///< of full and of sliding layers, where they differ
  bool two_rotaries_ = false, kinds_[2] = {false, false};
};

}  // namespace headroom::tape
