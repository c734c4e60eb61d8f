#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{
    .vocabulary = 50304, .hidden = 2560, .intermediate = 6912, .kv_heads = 32, .max_positions = 4096};

/// LLaMA with norms that have biases; a quarter of each head is rotated. With parallel branches both read one
/// norm.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  decoder.final_norm = layer.attention_norm = layer.mlp_norm = layer_norm(decoder.hidden);
  decoder.dropout = config.number("hidden_dropout", 0);
  layer.attention.qkv_bias = config.flag("use_qkv_bias", false);
  layer.attention.output_bias = false;
  layer.attention.rotary_dim = read_rotary_dim(config, layer.attention.head_dim, 0.25);
  if (config.flag("qk_layernorm", false))
    config.reject("qk_layernorm", "expected false; its norms are not modelled");
  if (config.flag("use_parallel_residual", false)) {
    layer.residual = ResidualKind::parallel;
    layer.mlp_norm = {};
  }
  decoder.groups = equal_layers(decoder.layers, layer);
}

}  // namespace

extern const Family kStableLm;
const Family kStableLm{"stablelm", "StableLmDecoderLayer", describe, write_llama};

}  // namespace headroom
