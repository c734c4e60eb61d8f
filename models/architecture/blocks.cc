#include "models/architecture/blocks.h"

#include <fmt/format.h>

#include <string>

namespace headroom {

Norm rms_norm(std::int64_t size) {
  return {.kind = NormKind::rms, .size = size};
}

Norm layer_norm(std::int64_t size, bool bias) {
  return {.kind = NormKind::layer, .size = size, .bias = bias};
}

std::vector<LayerGroup> equal_layers(std::int64_t count, const Layer& layer) {
  return {{.first = 0, .count = count, .layer = layer}};
}

std::int64_t default_head_dim(Config& config, std::int64_t hidden, std::int64_t heads) {
  if (hidden % heads != 0)
    config.reject(
        "hidden_size",
        fmt::format("expected a multiple of the {} attention heads or a head_dim, found {}", heads, hidden));
  return hidden / heads;
}

namespace {

/// Positions that a model serves. Scaled rotations reach `factor` times as far as the positions that they
/// were trained for; forms whose configurations state the scaled number (llama3, longrope) add nothing.
std::int64_t read_positions(Config& config, std::int64_t fallback) {
  const std::int64_t stated = config.size("max_position_embeddings", fallback);
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    Config rope = config.section(name);
    const std::string type = rope.text({"rope_type", "type"}, "");
    if (type != "yarn" && type != "linear" && type != "dynamic") continue;
    const std::int64_t trained =
        type == "yarn" ? rope.size("original_max_position_embeddings", stated) : stated;
    const double reach = static_cast<double>(trained) * rope.number("factor", 1);
    if (reach > static_cast<double>(stated) && reach < 1e12) return static_cast<std::int64_t>(reach);
  }
  return stated;
}

}  // namespace

Decoder read_decoder(Config& config, const Defaults& defaults) {
  Decoder decoder;
  decoder.vocabulary = config.size("vocab_size", defaults.vocabulary);
  decoder.hidden = config.essential("hidden_size", defaults.hidden);
  decoder.layers = config.essential("num_hidden_layers", defaults.layers);
  decoder.next_token_layers = config.count({"num_nextn_predict_layers", "mtp_num_hidden_layers"}, 0);
  decoder.max_positions = read_positions(config, defaults.max_positions);
  decoder.tied_embeddings = config.flag("tie_word_embeddings", defaults.tied);
  decoder.embedding_dim = decoder.hidden;
  decoder.attention_dropout = config.number("attention_dropout", 0);
  decoder.final_norm = rms_norm(decoder.hidden);
  return decoder;
}

Attention read_attention(Config& config, const Defaults& defaults, std::int64_t hidden) {
  Attention attention;
  attention.heads = config.essential("num_attention_heads", defaults.heads);
  attention.kv_heads = config.size_or_none("num_key_value_heads", defaults.kv_heads);
  if (attention.kv_heads == 0) attention.kv_heads = attention.heads;
  attention.head_dim = config.size_or_none("head_dim", defaults.head_dim);
  if (attention.head_dim == 0) attention.head_dim = default_head_dim(config, hidden, attention.heads);
  attention.value_head_dim = attention.head_dim;
  attention.rotary_dim = attention.head_dim;
  attention.qkv_bias = attention.output_bias = config.flag("attention_bias", defaults.attention_bias);
  return attention;
}

Mlp read_gated_mlp(Config& config, const Defaults& defaults) {
  Mlp mlp;
  mlp.hidden = config.size("intermediate_size", defaults.intermediate);
  mlp.activation = config.text({"hidden_act", "hidden_activation"}, defaults.activation);
  return mlp;
}

std::int64_t read_rotary_dim(Config& config, std::int64_t head_dim, double fallback) {
  constexpr Key kFactor{"partial_rotary_factor", "rotary_pct"};
  const double nested = config.section("rope_parameters").number(kFactor, fallback);
  const double factor = config.number(kFactor, nested);
  if (factor < 0 || factor > 1)
    config.reject(kFactor, fmt::format("expected a share from 0 to 1, found {}", factor));
  return static_cast<std::int64_t>(static_cast<double>(head_dim) * factor);
}

Mlp read_experts(Config& config, Key experts, Key hidden, const ExpertDefaults& defaults,
                 std::string_view activation) {
  Mlp mlp;
  mlp.kind = MlpKind::experts;
  mlp.stacked = true;
  mlp.activation = config.text("hidden_act", activation);
  mlp.experts = config.count(experts, defaults.experts);
  mlp.experts_per_token = config.count("num_experts_per_tok", defaults.experts_per_token);
  mlp.hidden = config.size(hidden, defaults.hidden);
  mlp.normalized = config.flag("norm_topk_prob", defaults.normalized);
  return mlp;
}

Layer read_layer(Config& config, const Defaults& defaults, std::int64_t hidden) {
  Layer layer;
  layer.attention = read_attention(config, defaults, hidden);
  layer.mlp = read_gated_mlp(config, defaults);
  layer.attention_norm = layer.mlp_norm = rms_norm(hidden);
  return layer;
}

void write_attention(TensorWriter& out, std::string_view module, const Attention& attention,
                     std::string_view output) {
  const std::int64_t hidden = out.decoder().hidden;
  const std::int64_t queries = attention.heads * attention.head_dim;
  const std::int64_t keys = attention.kv_heads * attention.head_dim;
  const std::string at = std::string(module) + ".";
  out.linear(at + "q_proj", (attention.gated ? 2 : 1) * queries, hidden, Split::column, attention.qkv_bias);
  if (!attention.borrows) out.linear(at + "k_proj", keys, hidden, Split::qkv, attention.qkv_bias);
  if (!attention.borrows && !attention.key_is_value)
    out.linear(at + "v_proj", keys, hidden, Split::qkv, attention.qkv_bias);
  out.linear(at + std::string(output), hidden, queries, Split::row, attention.output_bias);
  out.norm(at + "q_norm", attention.query_norm);
  out.norm(at + "k_norm", attention.key_norm);
}

void write_gated_mlp(TensorWriter& out, std::string_view module, const Mlp& mlp) {
  const std::int64_t hidden = out.decoder().hidden;
  const std::string at = std::string(module) + ".";
  if (mlp.fused_gate_up) {
    out.linear(at + "gate_up_proj", 2 * mlp.hidden, hidden, Split::column, mlp.bias);
  } else {
    out.linear(at + "gate_proj", mlp.hidden, hidden, Split::column, mlp.bias);
    out.linear(at + "up_proj", mlp.hidden, hidden, Split::column, mlp.bias);
  }
  out.linear(at + "down_proj", hidden, mlp.hidden, Split::row, mlp.bias);
}

void write_plain_mlp(TensorWriter& out, std::string_view up, std::string_view down, const Mlp& mlp) {
  const std::int64_t hidden = out.decoder().hidden;
  out.linear(up, mlp.hidden, hidden, Split::column, mlp.bias);
  out.linear(down, hidden, mlp.hidden, Split::row, mlp.bias);
}

void write_experts(TensorWriter& out, std::string_view module, const Mlp& mlp) {
  const std::int64_t hidden = out.decoder().hidden;
  const std::string at = std::string(module) + ".";
  out.experts(at + "gate_up_proj", {mlp.experts, 2 * mlp.hidden, hidden}, Split::column);
  out.experts(at + "down_proj", {mlp.experts, hidden, mlp.hidden}, Split::row);
}

void write_rotary(TensorWriter& out, std::string_view module, const Decoder& decoder) {
  const Attention& attention = decoder.attention();
  const std::int64_t rotated =
      attention.kind == AttentionKind::latent ? attention.rope_dim : attention.rotary_dim;
  if (rotated < 2) return;
  out.buffer(std::string(module) + ".inv_freq", {rotated / 2}, DType::fp32);
  out.buffer(std::string(module) + ".original_inv_freq", {rotated / 2}, DType::fp32);
}

void write_llama_layer(TensorWriter& out, const Layer& layer) {
  write_attention(out, "self_attn", layer.attention);
  write_gated_mlp(out, "mlp", layer.mlp);
  out.norm("input_layernorm", layer.attention_norm);
  out.norm("post_attention_layernorm", layer.mlp_norm);
}

void describe_llama(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, Defaults{});
  Layer layer = read_layer(config, Defaults{}, decoder.hidden);
  layer.mlp.bias = config.flag("mlp_bias", false);
  decoder.groups = equal_layers(decoder.layers, layer);
}

void write_llama(TensorWriter& out) {
  write_llama_frame(out, [&](const Layer& layer) { write_llama_layer(out, layer); });
}

void write_llama_of_experts(TensorWriter& out) {
  write_llama_frame(out, [&](const Layer& layer) {
    write_attention(out, "self_attn", layer.attention);
    out.parameter("mlp.gate.weight", {layer.mlp.experts, out.decoder().hidden});
    write_experts(out, "mlp.experts", layer.mlp);
    out.norm("input_layernorm", layer.attention_norm);
    out.norm("post_attention_layernorm", layer.mlp_norm);
  });
}

}  // namespace headroom
