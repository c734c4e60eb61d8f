#include "models/sharding/megatron.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/sharding/pipeline.h"
#include "models/sharding/ranks.h"

namespace headroom {
namespace {

/// Writes the weights of one stage; the first size that does not divide is kept as the error.
class StageWriter {
 public:
  StageWriter(const Architecture& model, const Parallel& parallel, std::int64_t vocabulary,
              MegatronLayers layers, bool grouped_experts, std::int64_t mtp_layers)
      : model_(model),
        parallel_(parallel),
        vocabulary_(vocabulary),
        hidden_(model.decoder.hidden),
        mtp_layers_(model.head == HeadKind::language_model ? mtp_layers : 0),
        local_(layers == MegatronLayers::local),
        experts_apart_(local_ || !grouped_experts) {}

  Result<MegatronStage> write(const PipelineStage& stage) {
    const Decoder& decoder = model_.decoder;
    const std::int64_t rows = cut(vocabulary_, parallel_.tensor, "vocabulary");
    if (stage.embedding) embedding(rows);
    for (size_t chunk = 0; chunk < stage.chunks.size(); ++chunk) {
      chunk_ = static_cast<std::int32_t>(chunk);
      const LayerRange& range = stage.chunks[chunk];
      const bool predicts = stage.head && chunk + 1 == stage.chunks.size() && mtp_layers_ > 0;
      if (predicts && !(stage.embedding && chunk == 0)) embedding(rows);
      for (std::int64_t i = range.first; i < range.first + range.count; ++i) {
        layer_ = static_cast<std::int32_t>(i);
        layer(fmt::format("decoder.layers.{}.", i), decoder.layer(i));
        layer_ = -1;
      }
    }
    if (stage.head) head(stage.embedding, rows);
    if (error_) return fail(*error_);
    return std::move(out_);
  }

 private:
  std::int64_t cut(std::int64_t size, std::int64_t ranks, std::string_view what) {
    if (size % ranks != 0 && !error_)
      error_ = Error{.message = fmt::format("expected {} {} to divide over {} ranks", size, what, ranks),
                     .file = {},
                     .key = what == "experts" ? "expert" : "tensor"};
    return size / ranks;
  }

  MegatronWeight& add(std::string_view name, std::vector<std::int64_t> shape, bool matrix = false) {
    MegatronWeight& weight = out_.weights.emplace_back();
    weight.name.append(prefix_).append(name);
    weight.shape = std::move(shape);
    weight.layer = layer_;
    weight.chunk = chunk_;
    weight.depth = depth_;
    weight.matrix = matrix;
    return weight;
  }

  void linear(const std::string& name, std::int64_t out, std::int64_t in, bool bias = false,
              std::int64_t bias_size = 0) {
    add(name + ".weight", {out, in}, true);
    if (bias) add(name + ".bias", {bias_size > 0 ? bias_size : out});
  }

  void norm(const std::string& name, const Norm& norm) {
    if (!norm.present()) return;
    if (norm.weight) add(name + "weight", {norm.size});
    if (norm.bias) add(name + "bias", {norm.size});
  }

  void embedding(std::int64_t rows) {
    add("embedding.word_embeddings.weight", {rows, hidden_});
    if (model_.decoder.position == PositionKind::learned)
      add("embedding.position_embeddings.weight", {model_.decoder.position_rows, hidden_});
  }

  void predictions() {
    const Decoder& decoder = model_.decoder;
    for (std::int64_t i = 0; i < mtp_layers_; ++i) {
      depth_ = static_cast<std::int32_t>(i);
      const std::string at = fmt::format("mtp.layers.{}.", i);
      norm(at + "enorm.", decoder.final_norm);
      norm(at + "hnorm.", decoder.final_norm);
      linear(at + "eh_proj", cut(hidden_, parallel_.tensor, "hidden features"), 2 * hidden_);
      layer(at + "transformer_layer.", decoder.layer(decoder.layers - 1));
      norm(at + "final_layernorm.", decoder.final_norm);
    }
    depth_ = -1;
  }

  void layer(std::string prefix, const Layer& layer) {
    prefix_ = std::move(prefix);
    mixer(layer);
    norm("post_self_attn_layernorm.", layer.attention_post_norm);
    if (layer.mlp.kind == MlpKind::none) {
      // a mixer alone
    } else if (layer.mlp.kind == MlpKind::experts) {
      norm("pre_mlp_layernorm.", layer.mlp_norm);
      experts(layer.mlp);
    } else {
      norm(local_ ? "pre_mlp_layernorm." : "mlp.linear_fc1.layer_norm_", layer.mlp_norm);
      mlp("mlp", layer.mlp, layer.mlp.hidden);
    }
    norm("post_mlp_layernorm.", layer.mlp_post_norm);
    prefix_.clear();
  }

  void mixer(const Layer& layer) {
    if (layer.mixer == MixerKind::none) return;
    if (layer.mixer != MixerKind::attention) return state(layer.state, layer);
    const bool is_latent = layer.attention.kind == AttentionKind::latent;
    if (is_latent || local_) norm("input_layernorm.", layer.attention_norm);
    if (is_latent)
      latent(layer);
    else
      attention(layer);
  }

  /// Megatron's MambaMixer or GatedDeltaNet: everything but the norm of a head is cut with the heads.
  void state(const StateMixer& s, const Layer& layer) {
    const bool mamba = layer.mixer == MixerKind::mamba2;
    const std::string at = mamba ? "mixer." : "self_attention.";
    const std::int64_t heads = cut(s.heads, parallel_.tensor, "heads with a state");
    const std::int64_t groups = cut(s.groups, parallel_.tensor, "groups of keys");
    const std::int64_t values = heads * s.value_dim, channels = 2 * groups * s.key_dim + values;
    norm(local_ ? "input_layernorm." : at + "in_proj.layer_norm_", layer.attention_norm);
    linear(at + "in_proj", values + channels + (mamba ? 1 : 2) * heads, hidden_, s.projection_bias);
    add(at + "conv1d.weight", {channels, 1, s.kernel});
    if (s.convolution_bias) add(at + "conv1d.bias", {channels});
    for (const char* own : {"dt_bias", "A_log"}) add(at + own, {heads});
    if (mamba) add(at + "D", {heads});
    add(at + (mamba ? "norm.weight" : "out_norm.weight"), {mamba ? values : s.value_dim});
    linear(at + "out_proj", hidden_, values, s.projection_bias);
  }

  void attention(const Layer& layer) {
    const Attention& a = layer.attention;
    const std::int64_t t = parallel_.tensor;
    const std::int64_t queries = cut(a.heads, t, "attention heads") * a.head_dim;
    if (a.kv_heads % t != 0) cut(t, a.kv_heads, "tensor ranks");
    const std::int64_t keys = a.kv_heads * a.head_dim;
    linear("self_attention.linear_proj", hidden_, queries, a.output_bias);
    if (!local_) norm("self_attention.linear_qkv.layer_norm_", layer.attention_norm);
    linear("self_attention.linear_qkv", (a.gated ? 2 : 1) * queries + 2 * cut(keys, t, "key rows"), hidden_,
           a.qkv_bias);
    norm("self_attention.q_layernorm.", a.query_norm);
    norm("self_attention.k_layernorm.", a.key_norm);
    if (a.sinks) add("self_attention.core_attention.softmax_offset", {a.heads / t});
  }

  /// Features of a down projection on this rank.
  std::int64_t down(std::int64_t features) {
    return local_ ? cut(features, parallel_.tensor, "compressed features") : features;
  }

  void latent(const Layer& layer) {
    const Attention& a = layer.attention;
    const std::int64_t heads = cut(a.heads, parallel_.tensor, "attention heads");
    linear("self_attention.linear_proj", hidden_, heads * a.value_head_dim, a.output_bias);
    if (a.query_rank > 0) {
      linear("self_attention.linear_q_down_proj", down(a.query_rank), hidden_, a.qkv_bias);
      norm("self_attention.linear_q_up_proj.layer_norm_", a.query_norm);
      linear("self_attention.linear_q_up_proj", heads * a.head_dim, a.query_rank);
    } else {
      linear("self_attention.linear_q_proj", heads * a.head_dim, hidden_);
    }
    linear("self_attention.linear_kv_down_proj", down(a.kv_rank + a.rope_dim), hidden_, a.qkv_bias);
    norm("self_attention.linear_kv_up_proj.layer_norm_", a.key_norm);
    linear("self_attention.linear_kv_up_proj", heads * (a.nope_dim + a.value_head_dim), a.kv_rank);
  }

  void mlp(const std::string& module, const Mlp& mlp, std::int64_t width) {
    const std::int64_t local = cut(width, parallel_.tensor, "MLP columns");
    const bool gated = mlp.kind != MlpKind::plain && !mlp.plain_experts;
    linear(module + ".linear_fc1", (gated ? 2 : 1) * local, hidden_, mlp.bias);
    linear(module + ".linear_fc2", hidden_, local, mlp.bias);
  }

  void experts(const Mlp& mlp) {
    const std::int64_t width = cut(mlp.hidden, expert_tensor_of(parallel_), "expert columns");
    const std::int64_t local = cut(mlp.experts, parallel_.expert, "experts");
    add("mlp.router.weight", {mlp.experts, hidden_});
    if (mlp.router_bias) add("mlp.router.bias", {mlp.experts});
    const size_t first = out_.weights.size();
    for (std::int64_t expert = 0; expert < (experts_apart_ ? local : 1); ++expert) {
      const std::string at =
          experts_apart_ ? fmt::format("mlp.experts.local_experts.{}.", expert) : "mlp.experts.";
      const std::int64_t inside = mlp.latent > 0 ? mlp.latent : hidden_;
      linear(at + "linear_fc1", (mlp.plain_experts ? 1 : 2) * width, inside, mlp.expert_bias);
      linear(at + "linear_fc2", inside, width, mlp.expert_bias);
    }
    for (size_t i = first; i < out_.weights.size(); ++i) {
      if (!experts_apart_) out_.weights[i].copies = local;
      out_.weights[i].expert = true;
    }
    if (mlp.latent > 0) {
      linear("mlp.fc1_latent_proj", mlp.latent, hidden_);
      linear("mlp.fc2_latent_proj", hidden_, mlp.latent);
    }
    if (mlp.shared_hidden == 0) return;
    this->mlp("mlp.shared_experts", mlp, mlp.shared_hidden);
    if (mlp.shared_gate) add("mlp.shared_experts.gate_weight", {1, hidden_});
  }

  void head(bool embedding_here, std::int64_t rows) {
    const Decoder& decoder = model_.decoder;
    chunk_ = static_cast<std::int32_t>(parallel_.virtual_pipeline) - 1;
    norm("decoder.final_layernorm.", decoder.final_norm);
    if (model_.head != HeadKind::language_model) {
      add("output_layer.weight", {model_.labels, hidden_}, true);
      return;
    }
    predictions();
    if (!decoder.tied_embeddings) {
      linear("output_layer", rows, hidden_, decoder.head_bias);
    } else if (!embedding_here) {
      add("output_layer.weight", {rows, hidden_}, true);
    }
  }

  const Architecture& model_;
  const Parallel& parallel_;
  const std::int64_t vocabulary_, hidden_, mtp_layers_;
  const bool local_;  ///< Megatron's own layers
  const bool experts_apart_;
  MegatronStage out_;
  std::optional<Error> error_;
  std::string prefix_;
  std::int32_t layer_ = -1, chunk_ = 0, depth_ = -1;
};

Status supported(const Architecture& model) {
  for (const LayerGroup& group : model.decoder.groups)
    if (group.layer.residual == ResidualKind::parallel)
      return fail(Error{
          .message =
              fmt::format("Megatron has no layers with parallel attention and MLP, as {} has", model.family),
          .file = model.source,
          .key = "model_type"});
  return {};
}

}  // namespace

std::int64_t MegatronWeight::count() const {
  std::int64_t elements = copies;
  for (std::int64_t size : shape) elements *= size;
  return elements;
}

std::int64_t MegatronStage::dense_elements() const {
  std::int64_t sum = 0;
  for (const MegatronWeight& weight : weights) sum += weight.expert ? 0 : weight.count();
  return sum;
}

std::int64_t MegatronStage::expert_elements() const {
  std::int64_t sum = 0;
  for (const MegatronWeight& weight : weights) sum += weight.expert ? weight.count() : 0;
  return sum;
}

Result<MegatronStage> megatron_stage(const Architecture& model, const Parallel& parallel,
                                     const VocabularyRule& rule, std::int64_t stage, MegatronLayers layers,
                                     bool grouped_experts, std::int64_t mtp_layers) {
  HEADROOM_TRY(supported(model));
  HEADROOM_ASSIGN(const auto stages, pipeline_stages(model.decoder.layers, parallel));
  if (stage < 0 || stage >= parallel.pipeline)
    return fail(fmt::format("expected a stage below {}, found {}", parallel.pipeline, stage));
  HEADROOM_ASSIGN(const std::int64_t rows,
                  padded_vocabulary(model.decoder.vocabulary, rule, parallel.tensor));
  return StageWriter(model, parallel, rows, layers, grouped_experts, mtp_layers)
      .write(stages[static_cast<size_t>(stage)]);
}

}  // namespace headroom
