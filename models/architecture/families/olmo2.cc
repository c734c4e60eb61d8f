#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 50304};

/// Norms stand on the branches, and on the whole query and key projections.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  layer.residual = ResidualKind::post_norm;
  layer.branch_post_norm = true;
  Attention& attention = layer.attention;
  attention.query_norm = rms_norm(attention.heads * attention.head_dim);
  attention.key_norm = rms_norm(attention.kv_heads * attention.head_dim);
  decoder.groups = equal_layers(decoder.layers, layer);
}

void write(TensorWriter& out) {
  write_llama_frame(out, [&](const Layer& layer) {
    write_attention(out, "self_attn", layer.attention);
    write_gated_mlp(out, "mlp", layer.mlp);
    out.norm("post_attention_layernorm", layer.attention_norm);
    out.norm("post_feedforward_layernorm", layer.mlp_norm);
  });
}

}  // namespace

extern const Family kOlmo2;
const Family kOlmo2{"olmo2", "Olmo2DecoderLayer", describe, write, {.begin_token = false}};

}  // namespace headroom
