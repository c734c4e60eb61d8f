#include "models/architecture/blocks.h"
#include "models/architecture/family.h"
#include "models/architecture/layer_patterns.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 49152,
                             .hidden = 3072,
                             .intermediate = 12288,
                             .layers = 30,
                             .heads = 24,
                             .kv_heads = 2,
                             .max_positions = 4096,
                             .activation = "gelu_pytorch_tanh",
                             .tied = true};

void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  const bool biases = config.flag("use_bias", true);
  decoder.final_norm = layer.attention_norm = layer.mlp_norm = layer_norm(decoder.hidden);
  decoder.dropout = config.number("residual_dropout", 0);
  layer.attention.qkv_bias = layer.attention.output_bias = biases;
  layer.mlp.kind = MlpKind::plain;
  layer.mlp.bias = biases;
  const SlidingRule rule{.window = config.size_or_none("sliding_window", 0)};
  decoder.groups = read_sliding_layers(config, decoder.layers, layer, rule);
}

void write(TensorWriter& out) {
  write_llama_frame(out, [&](const Layer& layer) {
    write_attention(out, "self_attn", layer.attention);
    write_plain_mlp(out, "mlp.c_fc", "mlp.c_proj", layer.mlp);
    out.norm("input_layernorm", layer.attention_norm);
    out.norm("post_attention_layernorm", layer.mlp_norm);
  });
}

}  // namespace

extern const Family kStarcoder2;
const Family kStarcoder2{"starcoder2", "Starcoder2DecoderLayer", describe, write};

}  // namespace headroom
