#pragma once

#include <string>

#include "simulator/tape/modules/layers.h"
#include "simulator/tape/modules/model.h"

namespace headroom::tape {

/// Gemma 4's embedding of every token for every layer: a table beside the usual one, and a projection of the usual
/// embeddings, normed and added to it. Source: Gemma4TextModel in Transformers 5.
class TokenInputs {
 public:
  bool present() const { return width_ > 0; }
  /// Makes table, projection and norm under `body`, behind all layers. Nothing for other models.
  void build(Model& model, const std::string& body);
  /// [B,T,layers,width] from ids and embeddings [B,T,h].
  Tensor operator()(const Tensor& ids, const Tensor& embeddings) const;

 private:
  std::int64_t width_ = 0, layers_ = 0;
  Tensor table_, scale_;
  LinearLayer projection_;
  NormLayer norm_;
  std::uint32_t module_ = 0;
};

/// A layer's end: its token's input [B,T,width] gates the hidden state, narrowed to that width; widened and normed,
/// it is added.
class LayerTokenInput {
 public:
  void build(Model& model, const Layer& layer, NormForm form, const std::string& name, int index);
  bool present() const { return present_; }
  Tensor operator()(Tensor hidden, const Tensor& input) const;

 private:
  bool present_ = false;
  std::string activation_;
  LinearLayer gate_, projection_;
  NormLayer norm_;
};

}  // namespace headroom::tape
