#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 50304,
                             .hidden = 2048,
                             .intermediate = 2048,
                             .layers = 16,
                             .heads = 16,
                             .max_positions = 4096};

/// Norms run over the whole query and key projections.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  Attention& attention = layer.attention;
  attention.query_norm = rms_norm(attention.heads * attention.head_dim);
  attention.key_norm = rms_norm(attention.kv_heads * attention.head_dim);
  layer.mlp = read_experts(config, {"num_experts", "num_local_experts"}, "intermediate_size",
                           {.experts = 64, .experts_per_token = 8, .hidden = kDefaults.intermediate}, "silu");
  decoder.groups = equal_layers(decoder.layers, layer);
}

}  // namespace

extern const Family kOlmoe;
const Family kOlmoe{"olmoe", "OlmoeDecoderLayer", describe, write_llama_of_experts, {.begin_token = false}};

}  // namespace headroom
