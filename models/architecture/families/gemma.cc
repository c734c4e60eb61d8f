#include "models/architecture/gemma.h"

#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 256000,
                             .hidden = 3072,
                             .intermediate = 24576,
                             .layers = 28,
                             .heads = 16,
                             .kv_heads = 16,
                             .head_dim = 256,
                             .max_positions = 8192,
                             .activation = "gelu_pytorch_tanh",
                             .tied = true};

void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  apply_gemma(decoder, layer);
  decoder.groups = equal_layers(decoder.layers, layer);
}

}  // namespace

extern const Family kGemma;
const Family kGemma{"gemma", "GemmaDecoderLayer", describe, write_llama};

}  // namespace headroom
