#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

/// LLaMA with scalar multipliers, which own no memory.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, Defaults{});
  Layer layer = read_layer(config, Defaults{}, decoder.hidden);
  layer.mlp.bias = config.flag("mlp_bias", false);
  decoder.groups = equal_layers(decoder.layers, layer);
}

}  // namespace

extern const Family kGranite;
const Family kGranite{"granite", "GraniteDecoderLayer", describe, write_llama};

}  // namespace headroom
