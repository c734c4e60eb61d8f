#include "models/architecture/blocks.h"
#include "models/architecture/family.h"
#include "models/architecture/layer_patterns.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.intermediate = 14336, .kv_heads = 8, .max_positions = 131072};

void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  layer.attention.qkv_bias = layer.attention.output_bias = false;
  layer.mlp = read_experts(config, {"num_local_experts", "num_experts"}, "intermediate_size",
                           {.experts = 8, .experts_per_token = 2, .hidden = kDefaults.intermediate}, "silu");
  layer.mlp.normalized = true;
  const SlidingRule rule{.window = config.size_or_none("sliding_window", 0)};
  decoder.groups = read_sliding_layers(config, decoder.layers, layer, rule);
}

}  // namespace

extern const Family kMixtral;
const Family kMixtral{"mixtral", "MixtralDecoderLayer", describe, write_llama_of_experts};

}  // namespace headroom
