#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 103168};

/// The authors' own modules: fused projections grouped by key/value head.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  layer.attention.kind = AttentionKind::fused_qkv;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("bias", true);
  decoder.groups = equal_layers(decoder.layers, layer);
}

void write(TensorWriter& out) {
  const Decoder& decoder = out.decoder();
  const std::int64_t hidden = decoder.hidden;
  out.embedding("model.tok_embeddings", decoder.vocabulary, hidden);
  out.layers("model.layers", [&](const Layer& layer) {
    const Attention& attention = layer.attention;
    out.linear("attention.wqkv", (attention.heads + 2 * attention.kv_heads) * attention.head_dim, hidden,
               Split::qkv, attention.qkv_bias);
    out.linear("attention.wo", hidden, attention.heads * attention.head_dim, Split::row,
               attention.output_bias);
    out.linear("feed_forward.w1", layer.mlp.hidden, hidden, Split::column);
    out.linear("feed_forward.w3", layer.mlp.hidden, hidden, Split::column);
    out.linear("feed_forward.w2", hidden, layer.mlp.hidden, Split::row);
    out.norm("attention_norm", layer.attention_norm);
    out.norm("ffn_norm", layer.mlp_norm);
  });
  out.norm("model.norm", decoder.final_norm);
  out.head("output", "model.tok_embeddings.weight", hidden);
}

}  // namespace

extern const Family kInternLm2;
const Family kInternLm2{"internlm2", "InternLM2DecoderLayer", describe, write};

}  // namespace headroom
