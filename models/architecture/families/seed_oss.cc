#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 155136,
                             .intermediate = 27648,
                             .layers = 64,
                             .heads = 80,
                             .kv_heads = 8,
                             .head_dim = 128,
                             .max_positions = 524288,
                             .attention_bias = true};

/// LLaMA's arrangement with biases on query, key and value, and heads wider together than the model.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  layer.attention.output_bias = config.flag("attention_out_bias", false);
  decoder.groups = equal_layers(decoder.layers, layer);
}

}  // namespace

extern const Family kSeedOss;
const Family kSeedOss{"seed_oss", "SeedOssDecoderLayer", describe, write_llama};

}  // namespace headroom
