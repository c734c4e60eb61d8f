#include "models/architecture/blocks.h"
#include "models/architecture/family.h"
#include "models/architecture/layer_patterns.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{
    .vocabulary = 151936, .intermediate = 22016, .kv_heads = 32, .head_dim = 128, .max_positions = 32768};

/// Explicit head size and an RMS norm on each query and key head.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  layer.attention.query_norm = layer.attention.key_norm = rms_norm(layer.attention.head_dim);
  decoder.groups = read_sliding_layers(config, decoder.layers, layer, qwen_sliding(config));
}

}  // namespace

extern const Family kQwen3;
const Family kQwen3{"qwen3", "Qwen3DecoderLayer", describe, write_llama, {.begin_token = false}};

}  // namespace headroom
