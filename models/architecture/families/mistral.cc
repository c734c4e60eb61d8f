#include "models/architecture/blocks.h"
#include "models/architecture/family.h"
#include "models/architecture/layer_patterns.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.intermediate = 14336, .kv_heads = 8, .max_positions = 131072};

/// Every layer slides, unless sliding_window is null.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  layer.attention.qkv_bias = layer.attention.output_bias = false;
  const SlidingRule rule{.window = config.size_or_none("sliding_window", 4096)};
  decoder.groups = read_sliding_layers(config, decoder.layers, layer, rule);
}

}  // namespace

extern const Family kMistral;
const Family kMistral{"mistral", "MistralDecoderLayer", describe, write_llama};

}  // namespace headroom
