#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 256000,
                             .hidden = 8192,
                             .intermediate = 22528,
                             .layers = 40,
                             .heads = 64,
                             .max_positions = 8192,
                             .tied = true};

/// Both branches read one norm without bias; query and key norms have a weight for each head.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  layer.residual = ResidualKind::parallel;
  decoder.final_norm = layer.attention_norm = layer_norm(decoder.hidden, false);
  layer.mlp_norm = {};
  Attention& attention = layer.attention;
  if (config.flag("use_qk_norm", false)) {
    attention.query_norm = layer_norm(attention.heads * attention.head_dim, false);
    attention.key_norm = layer_norm(attention.kv_heads * attention.head_dim, false);
  }
  decoder.groups = equal_layers(decoder.layers, layer);
}

void write(TensorWriter& out) {
  write_llama_frame(out, [&](const Layer& layer) {
    const Attention& attention = layer.attention;
    Attention projections = attention;
    projections.query_norm = projections.key_norm = {};
    write_attention(out, "self_attn", projections);
    if (attention.query_norm.present()) {
      out.parameter("self_attn.q_norm.weight", {attention.heads, attention.head_dim}, TensorRole::norm);
      out.parameter("self_attn.k_norm.weight", {attention.kv_heads, attention.head_dim}, TensorRole::norm);
    }
    write_gated_mlp(out, "mlp", layer.mlp);
    out.norm("input_layernorm", layer.attention_norm);
  });
}

}  // namespace

extern const Family kCohere;
const Family kCohere{"cohere", "CohereDecoderLayer", describe, write};

}  // namespace headroom
