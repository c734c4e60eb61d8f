#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/sharding/megatron.h"
#include "models/sharding/pipeline.h"
#include "simulator/tape/megatron/multi_token.h"

namespace headroom::tape::megatron {

/// What one pipeline rank holds of a Megatron-Core GPT model with TransformerEngine's layers, and its
/// forward. Names, shapes and places of its parameters are `megatron_stage`'s.
///
/// Hidden states are [tokens / t, hidden] under sequence parallelism, else [tokens, hidden]; `tokens` are
/// those of this context rank and divide by t.
class Stage {
 public:
  struct Parameter {
    MegatronWeight weight;
    Tensor tensor;
  };

  /// Parameters come to exist, each a tensor of its own. Errors: `megatron_stage`'s; heads
  /// that an all-to-all over context ranks can't deal out.
  static Result<std::unique_ptr<Stage>> make(const Architecture& model, const std::string& name,
                                             const Context& context);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  Context& context() { return context_; }
  const Options& options() const { return context_.options; }
  const PipelineStage& layout() const { return layout_; }
  /// In order of definition.
  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const Architecture& model() const { return model_; }

  /// Embedded tokens of ids [tokens].
  Tensor embed(Arg ids);
  /// The layers of virtual stage `chunk`. Full recomputation keeps the input of every `every` layers
  /// (uniform) or of the first `layers` layers (block), and runs them again in the backward.
  Tensor layers(std::size_t chunk, Tensor hidden);
  /// The final norm.
  Tensor final_norm(Arg hidden);
  /// Whether multi-token prediction comes behind the final norm.
  bool predicts_ahead() const { return !depths_.empty(); }
  /// The normed hidden states and each depth's, one behind the other: [(1 + depths) · tokens / t, hidden]. Full
  /// recomputation runs a depth again in the backward.
  Tensor predict_ahead(Arg normed, const Tensor& ids);
  /// Gathered over the tensor ranks.
  Tensor whole_tokens(Arg hidden);
  /// This rank's columns of the vocabulary, or values [tokens, labels] in fp32.
  Tensor logits(Arg hidden);
  Tensor values(Arg hidden);
  /// [Vp / t, hidden]
  const Tensor& head_weight() const { return head_; }

 private:
  Stage(const Architecture& model, const Context& context) : model_(model), context_(context) {}
  void create(const MegatronStage& weights, const std::string& name);
  DType dtype_of(const MegatronWeight& weight) const;
  void put_depth(const MegatronWeight& weight, const Tensor& tensor);
  void add_adapter(const MegatronWeight& weight, const Tensor& frozen, const std::string& name);
  Tensor run(const LayerRange& range, const Tensor& hidden);
  /// Angles of all positions in fp32, made once a length and kept by each virtual stage.
  void keep_angles(std::size_t chunk, std::int64_t tokens);

  const Architecture& model_;
  Context context_;
  PipelineStage layout_;
  std::vector<Parameter> parameters_;
  std::vector<LayerWeights> layers_;  ///< by layer index
  std::vector<PredictionDepth> depths_;
  std::vector<std::uint32_t> layer_names_;
  Tensor embedding_, positions_, head_;
  std::map<std::pair<std::size_t, std::int64_t>, Tensor> angles_;  ///< by virtual stage and length
  LayerWeights ends_;
};

}  // namespace headroom::tape::megatron
