#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 50304};

/// LLaMA with norms that own no weights.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  decoder.final_norm = {.kind = NormKind::layer, .size = decoder.hidden, .weight = false};
  layer.attention_norm = layer.mlp_norm = decoder.final_norm;
  decoder.groups = equal_layers(decoder.layers, layer);
}

}  // namespace

extern const Family kOlmo;
const Family kOlmo{"olmo", "OlmoDecoderLayer", describe, write_llama, {.begin_token = false}};

}  // namespace headroom
