#include "models/architecture/blocks.h"
#include "models/architecture/family.h"
#include "models/architecture/layer_patterns.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{
    .vocabulary = 32064, .hidden = 3072, .intermediate = 8192, .max_positions = 4096};

void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  layer.attention.kind = AttentionKind::fused_qkv;
  layer.attention.qkv_bias = layer.attention.output_bias = false;
  layer.attention.rotary_dim = read_rotary_dim(config, layer.attention.head_dim, 1);
  layer.mlp.fused_gate_up = true;
  decoder.dropout = config.number("resid_pdrop", 0);
  const SlidingRule rule{.window = config.size_or_none("sliding_window", 0)};
  decoder.groups = read_sliding_layers(config, decoder.layers, layer, rule);
}

void write(TensorWriter& out) {
  const std::int64_t hidden = out.decoder().hidden;
  write_llama_frame(out, [&](const Layer& layer) {
    const Attention& attention = layer.attention;
    out.linear("self_attn.o_proj", hidden, attention.heads * attention.head_dim, Split::row);
    out.linear("self_attn.qkv_proj", (attention.heads + 2 * attention.kv_heads) * attention.head_dim, hidden,
               Split::qkv);
    write_gated_mlp(out, "mlp", layer.mlp);
    out.norm("input_layernorm", layer.attention_norm);
    out.norm("post_attention_layernorm", layer.mlp_norm);
  });
}

}  // namespace

extern const Family kPhi3;
const Family kPhi3{"phi3", "Phi3DecoderLayer", describe, write};

}  // namespace headroom
