#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 50432,
                             .hidden = 6144,
                             .intermediate = 24576,
                             .layers = 44,
                             .heads = 64,
                             .activation = "gelu"};

/// One fused projection whose rows interleave query, key and value of each head; a quarter of each head is
/// rotated.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  decoder.final_norm = layer_norm(decoder.hidden);
  decoder.dropout = config.number("hidden_dropout", 0);

  Layer layer;
  layer.residual =
      config.flag("use_parallel_residual", true) ? ResidualKind::parallel : ResidualKind::sequential;
  layer.attention_norm = layer.mlp_norm = layer_norm(decoder.hidden);
  Attention& attention = layer.attention;
  attention.kind = AttentionKind::fused_qkv;
  attention.heads = attention.kv_heads = config.essential("num_attention_heads", kDefaults.heads);
  attention.head_dim = attention.value_head_dim = default_head_dim(config, decoder.hidden, attention.heads);
  attention.rotary_dim = read_rotary_dim(config, attention.head_dim, 0.25);
  attention.qkv_bias = attention.output_bias = config.flag("attention_bias", true);
  layer.mlp = {.kind = MlpKind::plain,
               .activation = config.text("hidden_act", kDefaults.activation),
               .hidden = config.size("intermediate_size", kDefaults.intermediate),
               .bias = true};
  decoder.groups = equal_layers(decoder.layers, layer);
}

void write(TensorWriter& out) {
  const Decoder& decoder = out.decoder();
  const std::int64_t hidden = decoder.hidden;
  out.embedding("gpt_neox.embed_in", decoder.vocabulary, hidden);
  out.layers("gpt_neox.layers", [&](const Layer& layer) {
    out.norm("input_layernorm", layer.attention_norm);
    out.norm("post_attention_layernorm", layer.mlp_norm);
    out.linear("attention.query_key_value", 3 * hidden, hidden, Split::qkv, layer.attention.qkv_bias);
    out.linear("attention.dense", hidden, hidden, Split::row, layer.attention.output_bias);
    write_plain_mlp(out, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", layer.mlp);
  });
  out.norm("gpt_neox.final_layer_norm", decoder.final_norm);
  write_rotary(out, "gpt_neox.rotary_emb", decoder);
  out.head("lm_head", "gpt_neox.embed_in.weight", hidden, "classifier");
}

}  // namespace

extern const Family kGptNeox;
const Family kGptNeox{"gpt_neox", "GPTNeoXLayer", describe, write};

}  // namespace headroom
