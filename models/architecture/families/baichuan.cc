#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 125696, .max_positions = 4096};

/// The authors' own modules. The 13B models state model_max_length in place of positions and use ALiBi.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  layer.attention.kind = AttentionKind::fused_qkv;
  layer.attention.kv_heads = layer.attention.heads;
  if (!config.has("max_position_embeddings")) {
    decoder.position = PositionKind::alibi;
    decoder.max_positions = config.size("model_max_length", 4096);
    layer.attention.rotary_dim = 0;
  }
  decoder.groups = equal_layers(decoder.layers, layer);
}

void write(TensorWriter& out) {
  const Decoder& decoder = out.decoder();
  const std::int64_t hidden = decoder.hidden;
  out.embedding("model.embed_tokens", decoder.vocabulary, hidden);
  out.layers("model.layers", [&](const Layer& layer) {
    out.linear("self_attn.W_pack", 3 * hidden, hidden, Split::qkv);
    out.linear("self_attn.o_proj", hidden, hidden, Split::row);
    out.linear("mlp.gate_proj", layer.mlp.hidden, hidden, Split::column);
    out.linear("mlp.down_proj", hidden, layer.mlp.hidden, Split::row);
    out.linear("mlp.up_proj", layer.mlp.hidden, hidden, Split::column);
    out.norm("input_layernorm", layer.attention_norm);
    out.norm("post_attention_layernorm", layer.mlp_norm);
  });
  out.norm("model.norm", decoder.final_norm);
  out.head("lm_head", "model.embed_tokens.weight", hidden);
}

}  // namespace

extern const Family kBaichuan;
const Family kBaichuan{"baichuan", "DecoderLayer", describe, write};

}  // namespace headroom
