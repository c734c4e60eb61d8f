#include <fmt/format.h>

#include "models/architecture/blocks.h"
#include "models/architecture/family.h"
#include "models/architecture/state_mixer.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 131072,
                             .intermediate = 21504,
                             .layers = 4,
                             .kv_heads = 8,
                             .head_dim = 128,
                             .max_positions = 4096,
                             .activation = "relu2"};

/// One layer each: a mixer or an MLP, behind one norm. M: Mamba 2, *: attention, -: dense, E: experts.
std::string read_pattern(Config& config) {
  std::string pattern = config.text("hybrid_override_pattern", "");
  if (!pattern.empty()) return pattern;
  constexpr Key kTypes{"layers_block_type", "layer_types"};
  const auto types =
      config.words(kTypes).value_or(std::vector<std::string>{"mamba", "moe", "attention", "mlp"});
  for (const std::string& type : types)
    pattern += type == "mamba" || type == "linear_attention"     ? 'M'
               : type == "attention" || type == "full_attention" ? '*'
               : type == "mlp"                                   ? '-'
               : type == "moe"                                   ? 'E'
                                                                 : '?';
  if (pattern.find('?') != std::string::npos)
    config.reject(kTypes, "expected mamba, attention, mlp or moe for each layer");
  return pattern;
}

Mlp read_dense(Config& config) {
  return {.kind = MlpKind::plain,
          .activation = config.text("mlp_hidden_act", kDefaults.activation),
          .hidden = config.size("intermediate_size", kDefaults.intermediate),
          .bias = config.flag("mlp_bias", false)};
}

Mlp read_sparse(Config& config) {
  Mlp mlp = read_experts(config, {"n_routed_experts", "num_local_experts"}, "moe_intermediate_size",
                         {.experts = 8, .experts_per_token = 2, .hidden = 7688, .normalized = true},
                         kDefaults.activation);
  mlp.activation = config.text("mlp_hidden_act", kDefaults.activation);
  mlp.plain_experts = true;
  mlp.shared_hidden = config.size("moe_shared_expert_intermediate_size", 7688);
  mlp.latent = config.size_or_none("moe_latent_size", 0);
  mlp.expert_groups = config.size_or_none("n_group", 1);
  mlp.open_groups = config.size_or_none("topk_group", 1);
  return mlp;
}

void describe(Config& config, Architecture& model) {
  const std::string pattern = read_pattern(config);
  Decoder& decoder = model.decoder;
  decoder.vocabulary = config.size("vocab_size", kDefaults.vocabulary);
  decoder.hidden = decoder.embedding_dim = config.essential("hidden_size", kDefaults.hidden);
  decoder.layers = static_cast<std::int64_t>(pattern.size());
  decoder.max_positions = config.size("max_position_embeddings", kDefaults.max_positions);
  decoder.position = PositionKind::none;
  decoder.tied_embeddings = config.flag("tie_word_embeddings", false);
  decoder.attention_dropout = config.number("attention_dropout", 0);
  decoder.final_norm = rms_norm(decoder.hidden);

  Layer none;
  none.attention_norm = rms_norm(decoder.hidden);
  none.mlp.kind = MlpKind::none;
  Layer attends = none, dense = none, sparse = none, mamba = none;
  if (pattern.find('*') != std::string::npos) {
    attends.attention = read_attention(config, kDefaults, decoder.hidden);
    attends.attention.rotary_dim = 0;
  }
  replace_attention(mamba, MixerKind::mamba2, read_mamba2(config));
  for (Layer* layer : {&dense, &sparse}) {
    layer->mixer = MixerKind::none;
    layer->attention_norm = {};
    layer->mlp_norm = none.attention_norm;
  }
  if (pattern.find('-') != std::string::npos) dense.mlp = read_dense(config);
  if (pattern.find('E') != std::string::npos) sparse.mlp = read_sparse(config);
  decoder.groups = grouped_layers(decoder.layers, [&](std::int64_t i) {
    switch (pattern[static_cast<std::size_t>(i)]) {
      case 'M':
        return mamba;
      case '*':
        return attends;
      case '-':
        return dense;
      case 'E':
        return sparse;
      default:
        config.reject("hybrid_override_pattern",
                      fmt::format("expected M, *, - and E alone, found {}", pattern.substr(0, 80)));
        return dense;
    }
  });
}

void write_mixture(TensorWriter& out, const Mlp& mlp) {
  const std::int64_t hidden = out.decoder().hidden, width = mlp.latent > 0 ? mlp.latent : hidden;
  out.experts("mixer.experts.up_proj", {mlp.experts, mlp.hidden, width}, Split::column);
  out.experts("mixer.experts.down_proj", {mlp.experts, width, mlp.hidden}, Split::row);
  out.parameter("mixer.gate.weight", {mlp.experts, hidden});
  out.buffer("mixer.gate.e_score_correction_bias", {mlp.experts}, DType::fp32);
  write_plain_mlp(out, "mixer.shared_experts.up_proj", "mixer.shared_experts.down_proj",
                  {.hidden = mlp.shared_hidden});
  if (mlp.latent == 0) return;
  out.linear("mixer.fc1_latent_proj", mlp.latent, hidden, Split::replicated);
  out.linear("mixer.fc2_latent_proj", hidden, mlp.latent, Split::replicated);
}

void write(TensorWriter& out) {
  const Decoder& decoder = out.decoder();
  out.embedding("model.embeddings", decoder.vocabulary, decoder.hidden);
  out.layers("model.layers", [&](const Layer& layer) {
    out.norm("norm", layer.mixer == MixerKind::none ? layer.mlp_norm : layer.attention_norm);
    if (layer.mixer == MixerKind::mamba2) write_mamba2(out, "mixer", layer.state);
    if (layer.mixer == MixerKind::attention) write_attention(out, "mixer", layer.attention);
    if (layer.mlp.kind == MlpKind::plain) write_plain_mlp(out, "mixer.up_proj", "mixer.down_proj", layer.mlp);
    if (layer.mlp.kind == MlpKind::experts) write_mixture(out, layer.mlp);
  });
  out.norm("model.norm_f", decoder.final_norm);
  out.head("lm_head", "model.embeddings.weight", decoder.hidden);
}

}  // namespace

extern const Family kNemotronH;
const Family kNemotronH{"nemotron_h", "NemotronHBlock", describe, write};

}  // namespace headroom
