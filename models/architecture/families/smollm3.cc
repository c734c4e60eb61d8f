#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 128256,
                             .hidden = 2048,
                             .layers = 36,
                             .heads = 16,
                             .kv_heads = 4,
                             .max_positions = 32768,
                             .tied = true};

/// Every fourth layer has no positions; only those slide, when asked to.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  layer.mlp.bias = config.flag("mlp_bias", false);
  const bool slides = config.flag("use_sliding_window", false);
  const std::int64_t interval = config.size("no_rope_layer_interval", 4);
  const auto rotated = config.sizes("no_rope_layers");
  if (rotated && static_cast<std::int64_t>(rotated->size()) < decoder.layers)
    config.reject("no_rope_layers", "expected an entry for each layer");
  if (!config.status()) return;
  decoder.groups = grouped_layers(decoder.layers, [&](std::int64_t i) {
    const bool rotary = rotated ? (*rotated)[static_cast<size_t>(i)] != 0 : (i + 1) % interval != 0;
    Layer next = layer;
    if (!rotary) next.attention.rotary_dim = 0;
    if (!rotary && slides) next.attention.sliding_window = config.size_or_none("sliding_window", 0);
    return next;
  });
}

}  // namespace

extern const Family kSmolLm3;
const Family kSmolLm3{"smollm3", "SmolLM3DecoderLayer", describe, write_llama};

}  // namespace headroom
