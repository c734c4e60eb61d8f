#include "models/architecture/blocks.h"
#include "models/architecture/family.h"
#include "models/architecture/layer_patterns.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{
    .vocabulary = 151936, .intermediate = 22016, .kv_heads = 32, .max_positions = 32768};

/// Biases on queries, keys and values, none on the output.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  layer.attention.qkv_bias = true;
  layer.attention.output_bias = false;
  decoder.groups = read_sliding_layers(config, decoder.layers, layer, qwen_sliding(config));
}

}  // namespace

extern const Family kQwen2;
const Family kQwen2{"qwen2", "Qwen2DecoderLayer", describe, write_llama, {.begin_token = false}};

/// MiMo is Qwen2; its layers that predict further tokens are made only where they are asked for.
extern const Family kMiMo;
const Family kMiMo{"mimo", "MiMoDecoderLayer", describe, write_llama, {.begin_token = false}};

}  // namespace headroom
