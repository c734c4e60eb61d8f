#include "models/architecture/blocks.h"
#include "models/architecture/family.h"
#include "models/architecture/layer_patterns.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 151936,
                             .hidden = 2048,
                             .intermediate = 6144,
                             .layers = 24,
                             .kv_heads = 4,
                             .max_positions = 32768};

void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  layer.attention.query_norm = layer.attention.key_norm = rms_norm(layer.attention.head_dim);
  decoder.groups = read_sliding_layers(config, decoder.layers, layer, qwen_sliding(config));
  const Mlp experts =
      read_experts(config, {"num_experts", "num_local_experts"}, "moe_intermediate_size",
                   {.experts = 128, .experts_per_token = 8, .hidden = 768}, kDefaults.activation);
  replace_sparse_layers(config, decoder, experts);
}

void write(TensorWriter& out) {
  write_llama_frame(out, [&](const Layer& layer) {
    write_attention(out, "self_attn", layer.attention);
    if (layer.mlp.kind == MlpKind::experts) {
      write_experts(out, "mlp.experts", layer.mlp);
      out.parameter("mlp.gate.weight", {layer.mlp.experts, out.decoder().hidden});
    } else {
      write_gated_mlp(out, "mlp", layer.mlp);
    }
    out.norm("input_layernorm", layer.attention_norm);
    out.norm("post_attention_layernorm", layer.mlp_norm);
  });
}

}  // namespace

extern const Family kQwen3Moe;
const Family kQwen3Moe{"qwen3_moe", "Qwen3MoeDecoderLayer", describe, write, {.begin_token = false}};

}  // namespace headroom
