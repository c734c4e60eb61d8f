#include "models/architecture/qwen3_next.h"

#include <string>

#include "models/architecture/layer_patterns.h"
#include "models/architecture/state_mixer.h"

namespace headroom {
namespace {

Norm zero_centered(std::int64_t size) {
  Norm norm = rms_norm(size);
  norm.plus_one = true;
  return norm;
}

/// Which layers attend: `layer_types`, else the last of every `full_attention_interval`.
std::vector<LayerGroup> mix_layers(Config& config, std::int64_t layers, const Layer& attention,
                                   const Layer& linear) {
  const auto types = config.words("layer_types");
  const std::int64_t interval = config.size("full_attention_interval", 4);
  if (types && static_cast<std::int64_t>(types->size()) != layers) {
    config.reject("layer_types", "expected one type for each layer");
    return equal_layers(layers, attention);
  }
  return grouped_layers(layers, [&](std::int64_t i) {
    if (!types) return (i + 1) % interval == 0 ? attention : linear;
    const std::string& type = (*types)[static_cast<std::size_t>(i)];
    if (type != "linear_attention" && type != "full_attention")
      config.reject("layer_types",
                    "expected full_attention or linear_attention, found " + type.substr(0, 80));
    return type == "full_attention" ? attention : linear;
  });
}

void write_sparse(TensorWriter& out, const Mlp& mlp) {
  const std::int64_t hidden = out.decoder().hidden;
  out.parameter("mlp.gate.weight", {mlp.experts, hidden});
  write_experts(out, "mlp.experts", mlp);
  write_gated_mlp(out, "mlp.shared_expert", {.hidden = mlp.shared_hidden});
  out.linear("mlp.shared_expert_gate", 1, hidden, Split::replicated);
}

}  // namespace

void describe_qwen_hybrid(Config& config, Architecture& model, const QwenHybrid& family) {
  Decoder& decoder = model.decoder = read_decoder(config, family.defaults);
  decoder.final_norm = zero_centered(decoder.hidden);
  Layer layer = read_layer(config, family.defaults, decoder.hidden);
  layer.attention.gated = true;
  layer.attention.query_norm = layer.attention.key_norm = zero_centered(layer.attention.head_dim);
  layer.attention.rotary_dim = read_rotary_dim(config, layer.attention.head_dim, 0.25);
  layer.attention_norm = layer.mlp_norm = zero_centered(decoder.hidden);
  StateMixer state = read_gated_delta(config, 32);
  state.fused_projection = family.fused_projection;
  Layer linear = layer;
  replace_attention(linear, MixerKind::gated_delta, state);
  decoder.groups = mix_layers(config, decoder.layers, layer, linear);
  if (family.experts.experts == 0) return;
  Mlp experts = read_experts(config, {"num_experts", "num_local_experts"}, "moe_intermediate_size",
                             family.experts, family.defaults.activation);
  experts.shared_hidden = config.size("shared_expert_intermediate_size", family.shared_hidden);
  experts.shared_gate = true;
  replace_sparse_layers(config, decoder, experts);
}

void write_qwen_hybrid(TensorWriter& out, std::string_view body) {
  const Decoder& decoder = out.decoder();
  const std::string at = std::string(body) + ".";
  out.place(Place::embedding);
  out.embedding(at + "embed_tokens", decoder.vocabulary, decoder.hidden);
  out.layers(at + "layers", [&](const Layer& layer) {
    if (layer.mixer == MixerKind::attention)
      write_attention(out, "self_attn", layer.attention);
    else
      write_gated_delta(out, "linear_attn", layer.state);
    if (layer.mlp.kind == MlpKind::experts)
      write_sparse(out, layer.mlp);
    else
      write_gated_mlp(out, "mlp", layer.mlp);
    out.norm("input_layernorm", layer.attention_norm);
    out.norm("post_attention_layernorm", layer.mlp_norm);
  });
  out.norm(at + "norm", decoder.final_norm);
  write_rotary(out, at + "rotary_emb", decoder);
  out.head("lm_head", at + "embed_tokens.weight", decoder.hidden);
}

}  // namespace headroom
