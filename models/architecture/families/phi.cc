#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{
    .vocabulary = 51200, .hidden = 2048, .intermediate = 8192, .layers = 24, .activation = "gelu_new"};

/// Both branches read one norm; half of each head is rotated; the head has a bias.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  decoder.final_norm = layer_norm(decoder.hidden);
  decoder.head_bias = true;
  decoder.dropout = config.number("resid_pdrop", 0);
  Layer layer;
  layer.residual = ResidualKind::parallel;
  layer.attention_norm = layer_norm(decoder.hidden);
  Attention& attention = layer.attention = read_attention(config, kDefaults, decoder.hidden);
  attention.qkv_bias = attention.output_bias = true;
  attention.rotary_dim = read_rotary_dim(config, attention.head_dim, 0.5);
  if (config.flag("qk_layernorm", false))
    attention.query_norm = attention.key_norm = layer_norm(attention.head_dim);
  layer.mlp = {.kind = MlpKind::plain,
               .activation = config.text("hidden_act", kDefaults.activation),
               .hidden = config.size("intermediate_size", kDefaults.intermediate),
               .bias = true};
  decoder.groups = equal_layers(decoder.layers, layer);
}

void write(TensorWriter& out) {
  const Decoder& decoder = out.decoder();
  out.embedding("model.embed_tokens", decoder.vocabulary, decoder.hidden);
  out.layers("model.layers", [&](const Layer& layer) {
    Attention projections = layer.attention;
    projections.query_norm = projections.key_norm = {};
    write_attention(out, "self_attn", projections, "dense");
    out.norm("self_attn.q_layernorm", layer.attention.query_norm);
    out.norm("self_attn.k_layernorm", layer.attention.key_norm);
    write_plain_mlp(out, "mlp.fc1", "mlp.fc2", layer.mlp);
    out.norm("input_layernorm", layer.attention_norm);
  });
  write_rotary(out, "model.rotary_emb", decoder);
  out.norm("model.final_layernorm", decoder.final_norm);
  out.head("lm_head", "model.embed_tokens.weight", decoder.hidden);
}

}  // namespace

extern const Family kPhi;
const Family kPhi{"phi", "PhiDecoderLayer", describe, write};

}  // namespace headroom
