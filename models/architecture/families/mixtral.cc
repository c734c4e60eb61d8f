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
  const SlidingRule rule{.window = config.size_or_none("sliding_window", 0)};
  decoder.groups = read_sliding_layers(config, decoder.layers, layer, rule);
}

void write(TensorWriter& out) {
  write_llama_frame(out, [&](const Layer& layer) {
    write_attention(out, "self_attn", layer.attention);
    out.parameter("mlp.gate.weight", {layer.mlp.experts, out.decoder().hidden});
    write_experts(out, "mlp.experts", layer.mlp);
    out.norm("input_layernorm", layer.attention_norm);
    out.norm("post_attention_layernorm", layer.mlp_norm);
  });
}

}  // namespace

extern const Family kMixtral;
const Family kMixtral{"mixtral", "MixtralDecoderLayer", describe, write};

}  // namespace headroom
