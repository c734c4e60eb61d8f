#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, Defaults{});
  Layer layer = read_layer(config, Defaults{}, decoder.hidden);
  layer.mlp.bias = config.flag("mlp_bias", false);
  decoder.groups = equal_layers(decoder.layers, layer);
}

}  // namespace

extern const Family kLlama;
const Family kLlama{"llama", "LlamaDecoderLayer", describe, write_llama};

}  // namespace headroom
